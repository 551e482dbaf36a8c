"""How both clients connect: retries, health checks, credentials, and the metadata of a call."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import grpc

try:
    from opentelemetry import propagate
except ImportError:  # the extra otel is absent
    propagate = None  # type: ignore[assignment]

# Bounds a call without a timeout, in seconds. Imports and exports have bounds of their own.
DEFAULT_TIMEOUT = 10.0
# Bounds each batch of an import without a timeout, in seconds: the gateway works no longer on one.
IMPORT_TIMEOUT = 120.0

_MEMORIES = "triskele.v1.MemoryService"
# Spreads calls over those replicas of a name that are healthy. Reads are tried again if a replica cannot be reached. Writes are not: the
# caller can, with an idempotency key.
_SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "healthCheckConfig": {"serviceName": ""},
    "methodConfig": [
        {
            "name": [{"service": "triskele.v1.RecallService"}]
            + [{"service": _MEMORIES, "method": m} for m in ("Get", "List", "GetNamespace", "ListNamespaces", "ListDecisions")],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}

OPTIONS = [
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.service_config_disable_resolution", 1),  # a name server must not change it
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 96 << 20),
]


def credentials(target: str, token: str | None, tls: Any) -> Any:
    """Returns the credentials of a channel, or None for plain text.

    It raises ValueError if a token would be sent to another machine in plain text.
    """
    if tls is None or tls is False:
        if token and not _loopback(target):
            raise ValueError("a token is sent to another machine only with TLS")
        return None
    if tls is True:
        return grpc.ssl_channel_credentials()
    if isinstance(tls, bytes):
        return grpc.ssl_channel_credentials(root_certificates=tls)
    return tls


def metadata(token: str | None) -> list[tuple[str, str]]:
    """Returns the metadata of a call: the token, and the trace that the caller is part of."""
    carrier: dict[str, str] = {}
    if propagate is not None:
        propagate.inject(carrier)
    if token:
        carrier["authorization"] = f"Bearer {token.strip()}"
    return list(carrier.items())


def _loopback(target: str) -> bool:
    """Reports whether a target is certain to be on this machine."""
    if target.startswith("unix:"):
        return True
    _, found, name = target.partition(":///")
    host = (name if found else target).rpartition(":")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
