"""Credentials for a location, read only from a Secret of the object's own namespace. Pure."""

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import DER_cert_to_PEM_cert
from typing import TypeAlias

from relay_operator.objectstores.allowed_urls import UrlNotPlainError, UrlPrefix
from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.location import Location, Scheme

_YES_OR_NO = {"true": True, "false": False}
_CA = "ca.crt"  # PEM: trusted for this location in addition to the public authorities
_LONGEST_CA = 65_536  # bytes
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----")
# The types of explicit parameters of a curve. Decoding a key on a curve that is chosen for it takes long.
_EXPLICIT = (bytes.fromhex("2a8648ce3d0101"), bytes.fromhex("2a8648ce3d0102"))


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Keys of an S3 service; without an endpoint, of AWS."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    region: str = "us-east-1"
    endpoint: str = ""
    path_style: bool = True
    ca: str = field(default="", repr=False)

    def endpoint_for(self, bucket: str) -> str:
        """The base URL of keys: in path style it lacks the bucket, else it contains it."""
        domain = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        endpoint = self.endpoint or f"https://s3.{self.region}.{domain}"
        return endpoint if self.path_style else endpoint.replace("://", f"://{bucket}.", 1)


@dataclass(frozen=True, slots=True)
class GcsCredentials:
    """A Google service account's key."""

    client_email: str
    private_key_id: str = field(repr=False)
    private_key: str = field(repr=False)
    endpoint: str = ""
    ca: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AzureCredentials:
    """A storage account with its key or a shared access signature; the other is empty."""

    account: str
    key: str = field(default="", repr=False)
    sas: str = field(default="", repr=False)
    endpoint: str = ""
    ca: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class WebCredentials:
    """The value of the Authorization header; empty: the header is not sent."""

    authorization: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)


Credentials: TypeAlias = S3Credentials | GcsCredentials | AzureCredentials | WebCredentials


def read_credentials(location: Location, data: Mapping[str, str], secret: str) -> Credentials:
    """The credentials for a location from the decoded data of the Secret named `secret`.

    Raises `StoreError` with reason Invalid, which names the missing or unusable key of the Secret, never a value.
    """
    source = _Secret(secret, data)
    match location.scheme:
        case Scheme.S3:
            return _s3(source)
        case Scheme.GCS:
            return _gcs(source)
        case Scheme.AZURE:
            return _azure(source, location)
        case Scheme.HTTPS | Scheme.HTTP:
            return _web(source)
        case Scheme.FILE:
            raise StoreError(StoreReason.INVALID, f"{location} takes no credentials: leave out Secret {secret}.")


@dataclass(frozen=True, slots=True)
class _Secret:
    name: str
    data: Mapping[str, str] = field(repr=False)

    def get(self, key: str) -> str:
        return self.data.get(key, "").strip()

    def need(self, key: str) -> str:
        value = self.get(key)
        if not value:
            raise self.error(key, "is missing or empty")
        return value

    def endpoint(self, key: str) -> str:
        """The service URL under this key, without a trailing slash; empty if the key is absent."""
        url = self.get(key)
        if url:
            try:
                UrlPrefix.parse(url)
            except UrlNotPlainError:
                raise self.error(key, "must be http(s)://host[:port][/path], without user name or query") from None
        return url.rstrip("/")

    def ca(self) -> str:
        """The certificates alone, so that nothing is decoded that is not checked here; what is no PEM as it is."""
        text = self.get(_CA)
        if len(text.encode()) > _LONGEST_CA:
            raise self.error(_CA, f"is longer than {_LONGEST_CA} bytes")
        if "-----BEGIN" not in text:
            return text
        try:
            found = [binascii.a2b_base64(block) for block in _CERTIFICATE.findall(text)]
        except binascii.Error:
            found = []
        if not found or len(found) < text.count("-----BEGIN CERTIFICATE-----"):
            raise self.error(_CA, "is not PEM, or has a broken certificate")
        if any(kind in certificate for certificate in found for kind in _EXPLICIT):
            raise self.error(_CA, "has a certificate with explicit curve parameters: use one with a named curve")
        return "".join(map(DER_cert_to_PEM_cert, found))

    def header(self, key: str) -> str:
        """A value that is safe to put into a header."""
        value = self.get(key)
        if not value.isascii() or not value.isprintable():
            raise self.error(key, "has characters that no HTTP header can have")
        return value

    def error(self, key: str, problem: str) -> StoreError:
        return StoreError(StoreReason.INVALID, f"Key {key} of Secret {self.name} {problem}.")


def _s3(secret: _Secret) -> S3Credentials:
    style = secret.get("AWS_S3_FORCE_PATH_STYLE").lower()
    if style and style not in _YES_OR_NO:
        raise secret.error("AWS_S3_FORCE_PATH_STYLE", "must be true or false")
    region = secret.get("AWS_REGION") or "us-east-1"
    if not re.fullmatch(r"[A-Za-z0-9-]{1,63}", region):
        raise secret.error("AWS_REGION", "must be a region's name, as in eu-central-1")
    secret.need("AWS_ACCESS_KEY_ID"), secret.need("AWS_SECRET_ACCESS_KEY")
    return S3Credentials(
        access_key_id=secret.header("AWS_ACCESS_KEY_ID"),
        secret_access_key=secret.get("AWS_SECRET_ACCESS_KEY"),
        session_token=secret.header("AWS_SESSION_TOKEN"),
        region=region,
        endpoint=secret.endpoint("AWS_ENDPOINT_URL"),
        path_style=_YES_OR_NO.get(style, True),
        ca=secret.ca(),
    )


def _gcs(secret: _Secret) -> GcsCredentials:
    key = "GOOGLE_SERVICE_ACCOUNT_KEY"
    try:
        account = json.loads(secret.need(key))
        fields = {name: account[name] for name in ("client_email", "private_key_id", "private_key")}
    except (ValueError, KeyError, TypeError):
        raise secret.error(key, "must be the JSON of a service account's key") from None
    if not all(isinstance(value, str) and value for value in fields.values()):
        raise secret.error(key, "must have client_email, private_key_id and private_key as text")
    # Ignore the rest of the JSON: it may name URLs to fetch tokens from.
    return GcsCredentials(**fields, endpoint=secret.endpoint("GOOGLE_STORAGE_ENDPOINT"), ca=secret.ca())


def _azure(secret: _Secret, location: Location) -> AzureCredentials:
    parts = _connection_string(secret)
    account = parts.get("AccountName") or secret.get("AZURE_STORAGE_ACCOUNT_NAME") or location.account
    if not account:
        raise secret.error("AZURE_STORAGE_ACCOUNT_NAME", "is missing or empty, and the URL names no account")
    if location.account and account != location.account:
        raise secret.error("AZURE_STORAGE_ACCOUNT_NAME", f"is not the account that {location} names")
    key = parts.get("AccountKey") or secret.get("AZURE_STORAGE_ACCOUNT_KEY")
    sas = (parts.get("SharedAccessSignature") or secret.header("AZURE_STORAGE_SAS_TOKEN")).removeprefix("?")
    if not key and not sas:
        raise secret.error("AZURE_STORAGE_ACCOUNT_KEY", "is missing or empty, and so is AZURE_STORAGE_SAS_TOKEN")
    endpoint = parts.get("BlobEndpoint", "").rstrip("/") or secret.endpoint("AZURE_STORAGE_ENDPOINT")
    return AzureCredentials(account, key="" if sas else key, sas=sas, endpoint=endpoint, ca=secret.ca())


def _connection_string(secret: _Secret) -> dict[str, str]:
    name = "AZURE_STORAGE_CONNECTION_STRING"
    parts: dict[str, str] = {}
    for part in filter(None, secret.get(name).split(";")):
        key, separator, value = part.partition("=")
        if not separator:
            raise secret.error(name, "must be pairs Name=Value with semicolons between them")
        parts[key.strip()] = value.strip()
    if "BlobEndpoint" in parts:
        endpoint = _Secret(secret.name, {name: parts["BlobEndpoint"]})
        parts["BlobEndpoint"] = endpoint.endpoint(name)
    return parts


def _web(secret: _Secret) -> WebCredentials:
    token = secret.header("HTTP_BEARER_TOKEN")
    authorization = secret.header("HTTP_AUTHORIZATION") or (f"Bearer {token}" if token else "")
    if not authorization:
        raise secret.error("HTTP_AUTHORIZATION", "is missing or empty, and so is HTTP_BEARER_TOKEN")
    return WebCredentials(authorization, secret.ca())
