"""The inference API: chat completions, messages and models (section 4, "Inference API").

Section 4 leaves the bodies to two popular client libraries; these are the fields that a server reads or knows.
Unknown fields are accepted and kept, since a server behind a model may know more.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from relay_wire.base import (
    Identifier,
    Lenient,
    ListOf,
    NonEmpty,
    Page,
    Received,
    ResourceId,
    Sent,
    SentList,
    SnakeReceived,
    Whole,
)

MOST = 2**31 - 1
MOST_MESSAGES = 10_000
"""The most messages of one request, and parts of one message: assumed."""


class Family(StrEnum):
    """An API family, identified by the path of its operation."""

    CHAT_COMPLETIONS = "/v1/chat/completions"
    MESSAGES = "/v1/messages"

    @property
    def api(self) -> str:
        """The family's name in `supported_apis` and `nativeFamilies`."""
        return {Family.CHAT_COMPLETIONS: "chat_completions", Family.MESSAGES: "messages"}[self]


class Asked(BaseModel):
    """A request body, or a part of one; null in an optional field means absent."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)


class Part(Asked):
    """One part of a message's content; parts that are not text are accepted, but mean nothing to a built-in model."""

    type: NonEmpty
    text: str | None = None
    content: "Content | None" = None

    @model_validator(mode="after")
    def _text_has_text(self) -> "Part":
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type text needs its text")
        return self


def _kind(value: object) -> str:
    return "parts" if isinstance(value, list) else "text"


_Text = Annotated[str, Tag("text")]
_Parts = Annotated[SentList[Part], Field(max_length=MOST_MESSAGES), Tag("parts")]
Content = Annotated[_Text | _Parts, Discriminator(_kind)]
"""A text, or a list of parts; errors name the alternative that was sent."""
_Texts = Annotated[SentList[str], Field(max_length=4), Tag("parts")]

Count = Annotated[int, Field(ge=1)]


class FunctionCall(Asked):
    """The function of a tool call, with its arguments as JSON text."""

    name: NonEmpty
    arguments: str


class ToolCall(Asked):
    """A call of a tool in an assistant's message."""

    id: NonEmpty
    type: Literal["function", "custom"] = "function"
    function: FunctionCall | None = None


class ChatMessage(Asked):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    tool_calls: SentList[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _role_has_its_fields(self) -> "ChatMessage":
        if self.content is None and self.role != "assistant":
            raise ValueError(f"a message of the role {self.role} needs its content")
        if self.tool_call_id is None and self.role == "tool":
            raise ValueError("a message of the role tool needs its tool_call_id")
        return self


class FunctionDefinition(Asked):
    """A function that the model may call."""

    name: NonEmpty
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class ChatTool(Asked):
    """A tool that the model may use in a chat."""

    type: Literal["function", "custom"]
    function: FunctionDefinition | None = None

    @model_validator(mode="after")
    def _function_is_defined(self) -> "ChatTool":
        if self.type == "function" and self.function is None:
            raise ValueError("a tool of type function needs its function")
        return self


class ChosenFunction(Asked):
    """The name of a function."""

    name: NonEmpty


class FunctionChoice(Asked):
    """The choice of one function, which the model shall call."""

    type: Literal["function"]
    function: ChosenFunction


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("mode")] | Annotated[FunctionChoice, Tag("function")],
    Discriminator(lambda value: "mode" if isinstance(value, str) else "function"),
]


class StreamOptions(Asked):
    """What a stream contains besides its content."""

    include_usage: bool | None = None


class ResponseFormat(Asked):
    """The form of the answer: text, any JSON object, or a value of a JSON schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, JsonValue] | None = None

    @model_validator(mode="after")
    def _schema_is_there(self) -> "ResponseFormat":
        if self.type != "json_schema":
            return self
        if self.json_schema is None:
            raise ValueError("a response_format of type json_schema needs its json_schema")
        name, schema = self.json_schema.get("name"), self.json_schema.get("schema")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ValueError("json_schema.name has 1 to 64 letters, digits, _ and -")
        if schema is not None and not isinstance(schema, dict):
            raise ValueError("json_schema.schema is a JSON schema, an object")
        return self


class ChatRequest(Asked):
    """The body of `POST /v1/chat/completions`."""

    model: NonEmpty
    messages: Annotated[SentList[ChatMessage], Field(min_length=1, max_length=MOST_MESSAGES)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: Annotated[_Text | _Texts, Discriminator(_kind)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: SentList[ChatTool] | None = None
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: int | None = None
    user: str | None = None
    audio: JsonValue = None
    function_call: JsonValue = None
    functions: JsonValue = None
    logit_bias: JsonValue = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: JsonValue = None
    modalities: JsonValue = None
    moderation: JsonValue = None
    parallel_tool_calls: JsonValue = None
    prediction: JsonValue = None
    prompt_cache_key: JsonValue = None
    prompt_cache_options: JsonValue = None
    prompt_cache_retention: JsonValue = None
    reasoning_effort: JsonValue = None
    safety_identifier: JsonValue = None
    service_tier: JsonValue = None
    store: JsonValue = None
    verbosity: JsonValue = None
    web_search_options: JsonValue = None

    @field_validator("tool_choice")
    @classmethod
    def _chosen_is_offered(cls, choice: ToolChoice | None, others: ValidationInfo) -> ToolChoice | None:
        tools: list[ChatTool] = others.data.get("tools") or []
        if choice == "required" and not tools:
            raise ValueError("required needs tools")
        if isinstance(choice, FunctionChoice):
            _require_offered(choice.function.name, (tool.function.name for tool in tools if tool.function is not None))
        return choice


def _require_offered(name: str | None, offered: Iterable[object]) -> None:
    if name not in offered:
        raise ValueError("the chosen tool is not among the tools")


class Message(Asked):
    """One message of the Messages family."""

    role: Literal["user", "assistant", "system"]
    content: Content


class MessagesToolChoice(Asked):
    """Whether the model shall call a tool: as it likes, any, none, or the one that is named."""

    type: Literal["auto", "any", "none", "tool"]
    name: NonEmpty | None = None

    @model_validator(mode="after")
    def _tool_is_named(self) -> "MessagesToolChoice":
        if self.type == "tool" and self.name is None:
            raise ValueError("a tool_choice of type tool needs its name")
        return self


class MessagesRequest(Asked):
    """The body of `POST /v1/messages`; it requires `max_tokens` (section 7)."""

    model: NonEmpty
    messages: Annotated[SentList[Message], Field(min_length=1, max_length=MOST_MESSAGES)]
    max_tokens: Count
    system: Content | None = None
    stop_sequences: Annotated[SentList[str], Field(max_length=16)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    tools: SentList[dict[str, JsonValue]] | None = None
    tool_choice: MessagesToolChoice | None = None
    cache_control: JsonValue = None
    container: JsonValue = None
    diagnostics: JsonValue = None
    inference_geo: JsonValue = None
    metadata: JsonValue = None
    output_config: JsonValue = None
    service_tier: JsonValue = None
    speed: JsonValue = None
    thinking: JsonValue = None
    user_profile_id: JsonValue = None
    workspace_id: JsonValue = None

    @field_validator("tool_choice")
    @classmethod
    def _chosen_is_offered(cls, choice: MessagesToolChoice | None, others: ValidationInfo) -> MessagesToolChoice | None:
        tools: list[dict[str, JsonValue]] = others.data.get("tools") or []
        if choice is not None and choice.type == "any" and not tools:
            raise ValueError("any needs tools")
        if choice is not None and choice.type == "tool":
            _require_offered(choice.name, (tool.get("name") for tool in tools))
        return choice


class ChatUsage(SnakeReceived):
    """Tokens of a chat completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(SnakeReceived):
    """A chat completion."""

    id: Identifier
    object: str
    created: int
    model: str
    choices: ListOf[JsonValue]
    usage: ChatUsage


class MessageUsage(SnakeReceived):
    """Tokens of a message."""

    input_tokens: int
    output_tokens: int


class MessageAnswer(SnakeReceived):
    """A model's message."""

    id: Identifier
    type: str
    role: str
    model: str
    content: ListOf[JsonValue]
    stop_reason: Lenient[str] = None
    stop_sequence: Lenient[str] = None
    usage: MessageUsage


class Model(SnakeReceived):
    """A model of the catalog; `supported_apis` names the families that it serves."""

    id: Identifier
    object: str
    created: int
    owned_by: str
    supported_apis: ListOf[str]


class ModelList(SnakeReceived):
    """Every model that the caller may use."""

    object: str
    data: ListOf[Model]


_NAME = "[A-Za-z0-9][A-Za-z0-9._:@-]*"
CatalogModel = Annotated[str, Field(min_length=1, max_length=200, pattern=rf"^{_NAME}(/{_NAME})*$")]
"""A model of the catalog: names between slashes, none of them empty, `.` or `..`; the form is assumed."""

BackendProvider = Literal["azure_openai", "bedrock", "vertex", "openai_compatible"]
"""Who runs a backend; the values are assumed, section 2 only says that there are four."""

BackendAuth = Literal["none", "api_key", "aws_sigv4", "gcp_oauth"]
"""How requests to a backend are authenticated; the two provider-specific styles are assumed."""

NativeFamily = Literal["chat_completions", "messages"]

BackendTransport = Literal["direct", "tunnel", "privatelink"]

BackendName = Annotated[str, Field(min_length=1, max_length=2000)]
"""The model's name at the backend, or the server's address; the bounds are assumed."""

LONGEST_KEY = 10_000
BackendKey = Annotated[str, Field(pattern=r"^[\x21-\x7e]+$", max_length=LONGEST_KEY)]


class BackendCreate(Sent):
    """Inference catalog backend request (section 2, "misc requests")."""

    provider: BackendProvider
    ref: BackendName
    endpoint: BackendName
    native_families: Annotated[list[NativeFamily], Field(min_length=1)]
    auth: BackendAuth = "none"
    transport: BackendTransport = "direct"
    weight: Annotated[int, Field(ge=0, le=MOST)] = 0  # 0 keeps it in the overflow tail
    max_concurrency: Annotated[int, Field(ge=0, le=MOST)] | None = None  # 0 and absent: no cap
    api_key: BackendKey | None = Field(None, repr=False)
    """The bearer token for `auth: api_key`; assumed, since section 2 does not say where the key comes from."""


class BackendUpdate(Sent):
    """The fields of a backend that may change; absent or null ones stay. Assumed: section 2 has no such request."""

    provider: BackendProvider | None = None
    ref: BackendName | None = None
    endpoint: BackendName | None = None
    native_families: Annotated[list[NativeFamily], Field(min_length=1)] | None = None
    auth: BackendAuth | None = None
    transport: BackendTransport | None = None
    weight: Annotated[int, Field(ge=0, le=MOST)] | None = None
    max_concurrency: Annotated[int, Field(ge=0, le=MOST)] | None = None
    api_key: BackendKey | None = Field(None, repr=False)


class Backend(Received):
    """A backend of a model; its key is never shown."""

    id: ResourceId
    model_id: Lenient[str] = None
    provider: Lenient[str] = None
    ref: Lenient[str] = None
    endpoint: Lenient[str] = None
    native_families: ListOf[str] = Field(default_factory=list)
    auth: Lenient[str] = None
    transport: Lenient[str] = None
    weight: Lenient[Whole] = None
    max_concurrency: Lenient[Whole] = None
    created_at: Lenient[str] = None


BackendList = Page[Backend]
"""All backends of a model."""
