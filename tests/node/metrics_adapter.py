"""Serves external.metrics.k8s.io: every metric has the value that is in a file. Run in a Pod; plain Python."""

import http.server
import json
import ssl
import time
from pathlib import Path

VALUE = Path("/tmp/value")
CERTIFICATE, KEY = "/serving/tls.crt", "/serving/tls.key"
GROUP = "external.metrics.k8s.io/v1beta1"


class Metrics(http.server.BaseHTTPRequestHandler):
    """GET of the group, and of a metric in a namespace."""

    def do_GET(self) -> None:
        """The group's resources, or one metric."""
        parts = self.path.partition("?")[0].strip("/").split("/")
        answer: dict[str, object] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP}
        answer["resources"] = []
        if len(parts) == 6:
            answer = {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "items": [_value(parts[5])]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _value(name: str) -> dict[str, object]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"metricName": name, "metricLabels": {}, "timestamp": now, "value": VALUE.read_text().strip()}


if __name__ == "__main__":
    VALUE.write_text("0")
    server = http.server.ThreadingHTTPServer(("", 8443), Metrics)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE, KEY)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
