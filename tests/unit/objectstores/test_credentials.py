"""What a Secret has to hold for each kind of place, and that its values are told nowhere."""

import json
from ssl import DER_cert_to_PEM_cert

import pytest

from relay_operator.objectstores.credentials import (
    AzureCredentials,
    GcsCredentials,
    S3Credentials,
    WebCredentials,
    read_credentials,
)
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location

S3 = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "CANARY"}
GOOGLE = {"client_email": "me@example.com", "private_key_id": "CANARY", "private_key": "CANARY"}
URLS = {"s3": "s3://bucket/key", "gs": "gs://bucket/key", "az": "az://container/path", "https": "https://a.example/in"}


WHOLE = [
    ("s3", S3),
    ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(GOOGLE)}),
    ("az", {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "CANARY"}),
    ("https", {"HTTP_BEARER_TOKEN": "CANARY"}),
]
PEM = DER_cert_to_PEM_cert(b"certificate" * 10)
UNFIT = [
    PEM + " " * 65_536 + PEM,
    PEM + DER_cert_to_PEM_cert(b"curve " + bytes.fromhex("06072a8648ce3d0101")),
    DER_cert_to_PEM_cert(b"curve  " + bytes.fromhex("06072a8648ce3d0102") + b"more"),
    PEM.replace("CERTIFICATE", "X509 CERTIFICATE"),
    PEM.replace("=", ""),
    PEM + PEM.replace("Y", "?"),
]


def read(scheme: str, data: dict[str, str]) -> object:
    return read_credentials(Location.parse(URLS[scheme]), data, "team-secret")


def test_s3_has_keys_and_what_else_is_said() -> None:
    assert read("s3", S3) == S3Credentials("id", "CANARY")
    more = {"AWS_SESSION_TOKEN": "CANARY", "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://s3.example:9000/"}
    assert read("s3", S3 | more | {"AWS_S3_FORCE_PATH_STYLE": "False"}) == S3Credentials(
        "id", "CANARY", "CANARY", "eu-central-1", "https://s3.example:9000", path_style=False
    )


@pytest.mark.parametrize(
    ("credentials", "endpoint"),
    [
        (S3Credentials("", ""), "https://s3.us-east-1.amazonaws.com"),
        (S3Credentials("", "", region="cn-north-1"), "https://s3.cn-north-1.amazonaws.com.cn"),
        (S3Credentials("", "", path_style=False), "https://bucket.s3.us-east-1.amazonaws.com"),
        (S3Credentials("", "", endpoint="http://s3.example:9000"), "http://s3.example:9000"),
        (S3Credentials("", "", endpoint="https://s3.example", path_style=False), "https://bucket.s3.example"),
    ],
)
def test_the_endpoint_of_a_bucket_follows_region_and_style(credentials: S3Credentials, endpoint: str) -> None:
    assert credentials.endpoint_for("bucket") == endpoint


def test_google_has_a_service_accounts_key_of_which_no_url_is_used() -> None:
    key = json.dumps(GOOGLE | {"token_uri": "http://169.254.169.254/", "gcs_base_url": "http://169.254.169.254/"})
    assert read("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": key}) == GcsCredentials("me@example.com", "CANARY", "CANARY")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "CANARY"},
            AzureCredentials("account", key="CANARY"),
        ),
        (
            {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_SAS_TOKEN": "?sig=CANARY"},
            AzureCredentials("account", sas="sig=CANARY"),
        ),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": "AccountName=account;AccountKey=CANARY==;BlobEndpoint=https://b.example/"
            },
            AzureCredentials("account", key="CANARY==", endpoint="https://b.example"),
        ),
    ],
)
def test_azure_has_an_account_with_its_key_or_a_signature(data: dict[str, str], expected: AzureCredentials) -> None:
    assert read("az", data) == expected


def test_azures_account_may_stand_in_the_url_and_must_not_contradict_it() -> None:
    location = Location.parse("az://container@account/path")
    assert read_credentials(location, {"AZURE_STORAGE_ACCOUNT_KEY": "k"}, "s") == AzureCredentials("account", key="k")
    with pytest.raises(StoreError, match="AZURE_STORAGE_ACCOUNT_NAME of Secret s"):
        read_credentials(location, {"AZURE_STORAGE_ACCOUNT_NAME": "other", "AZURE_STORAGE_ACCOUNT_KEY": "k"}, "s")


def test_a_web_server_gets_a_header_or_a_token() -> None:
    assert read("https", {"HTTP_BEARER_TOKEN": "CANARY\n"}) == WebCredentials("Bearer CANARY")
    assert read("https", {"HTTP_AUTHORIZATION": "Basic CANARY", "ca.crt": "PEM"}) == WebCredentials(
        "Basic CANARY", "PEM"
    )


@pytest.mark.parametrize(("scheme", "data"), WHOLE)
def test_of_a_file_of_certificates_only_these_are_used(scheme: str, data: dict[str, str]) -> None:
    another = PEM.replace("CERTIFICATE", "X509 CERTIFICATE")
    credentials = read(scheme, data | {"ca.crt": f"# Ours\n{PEM}# Theirs\r\n{another}{PEM}"})
    assert isinstance(credentials, S3Credentials | GcsCredentials | AzureCredentials | WebCredentials)
    assert credentials.ca == PEM + PEM


@pytest.mark.parametrize(
    ("scheme", "data", "key"),
    [
        ("s3", {}, "AWS_ACCESS_KEY_ID"),
        ("s3", {"AWS_ACCESS_KEY_ID": "id"}, "AWS_SECRET_ACCESS_KEY"),
        ("s3", S3 | {"AWS_SECRET_ACCESS_KEY": " \n"}, "AWS_SECRET_ACCESS_KEY"),
        ("s3", S3 | {"AWS_REGION": "eu central"}, "AWS_REGION"),
        ("s3", S3 | {"AWS_ENDPOINT_URL": "https://CANARY@host/"}, "AWS_ENDPOINT_URL"),
        ("s3", S3 | {"AWS_SESSION_TOKEN": "CANARY\r\nX: y"}, "AWS_SESSION_TOKEN"),
        ("s3", S3 | {"AWS_S3_FORCE_PATH_STYLE": "perhaps"}, "AWS_S3_FORCE_PATH_STYLE"),
        ("gs", {}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": "CANARY"}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": '["CANARY"]'}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(GOOGLE | {"private_key": 1})}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("az", {"AZURE_STORAGE_ACCOUNT_KEY": "CANARY"}, "AZURE_STORAGE_ACCOUNT_NAME"),
        ("az", {"AZURE_STORAGE_ACCOUNT_NAME": "account"}, "AZURE_STORAGE_ACCOUNT_KEY"),
        ("az", {"AZURE_STORAGE_CONNECTION_STRING": "CANARY"}, "AZURE_STORAGE_CONNECTION_STRING"),
        ("az", {"AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=CANARY"}, "AZURE_STORAGE_CONNECTION_STRING"),
        ("https", {}, "HTTP_AUTHORIZATION"),
        ("https", {"HTTP_AUTHORIZATION": "CANARY\nX: y"}, "HTTP_AUTHORIZATION"),
        *((scheme, data | {"ca.crt": ca}, "ca.crt") for scheme, data in WHOLE for ca in UNFIT),
    ],
)
def test_what_is_missing_or_wrong_is_named_and_no_value_told(scheme: str, data: dict[str, str], key: str) -> None:
    with pytest.raises(StoreError) as raised:
        read(scheme, data)
    assert raised.value.reason is StoreReason.INVALID
    assert f"Key {key} of Secret team-secret " in raised.value.message
    assert "CANARY" not in raised.value.message


def test_a_file_takes_no_credentials() -> None:
    with pytest.raises(StoreError, match="takes no credentials"):
        read_credentials(Location.parse("file:///data/in"), S3, "team-secret")


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("s3", S3 | {"AWS_SESSION_TOKEN": "CANARY"}),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(GOOGLE)}),
        ("az", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "CANARY"}),
        ("az", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": "sig=CANARY"}),
        ("https", {"HTTP_BEARER_TOKEN": "CANARY"}),
    ],
)
def test_the_text_of_credentials_hides_their_values(scheme: str, data: dict[str, str]) -> None:
    assert "CANARY" not in repr(read(scheme, data)) + str(read(scheme, data))
