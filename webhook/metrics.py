"""What the webhook counts. The registry is handed in, so that a test, or a second app in one process, has its own.

May know prometheus_client and nothing of pods: label values come from closed sets, never from an object.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# Seconds. The promise is 1 ms at the median and 10 ms at p99; 3 s is the timeout of our entries.
_BUCKETS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 3.0)


class Metrics:
    """All series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.latency = Histogram(
            "ganggate_webhook_request_duration_seconds",
            "From the whole body read to the answer built, by entry.",
            ["entry"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.verdicts = Counter(
            "ganggate_webhook_verdicts",
            "Answers by entry, policy, verdict (gated, passed, refused, error) and why.",
            ["entry", "policy", "verdict", "why"],
            registry=registry,
        )
        self.bad_calls = Counter(
            "ganggate_webhook_bad_calls",
            "Calls that were no AdmissionReview, by HTTP status.",
            ["code"],
            registry=registry,
        )
        self.in_flight = Gauge("ganggate_webhook_requests_in_flight", "Calls being answered.", registry=registry)
        self.stalls = Counter(
            "ganggate_webhook_stalled_connections",
            "Connections closed because their peer fell silent, by phase (handshake, request).",
            ["phase"],
            registry=registry,
        )
        self.expiry = Gauge(
            "ganggate_webhook_certificate_expiry_timestamp_seconds",
            "End of the served certificate's validity, seconds since 1970.",
            registry=registry,
        )
        self.reloads = Counter(
            "ganggate_webhook_certificate_reloads",
            "Times that the certificate files were read, by result (loaded, failed).",
            ["result"],
            registry=registry,
        )
