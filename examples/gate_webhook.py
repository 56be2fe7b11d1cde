"""Judge the newest version of a registered model whenever MLflow's webhook tells of one.

Run it beside MLflow's server, behind a proxy that speaks https, because MLflow delivers to https addresses only:

    export MLFLOW_TRACKING_URI=https://mlflow.example.com
    export GATE_WEBHOOK_SECRET=$(openssl rand -hex 32)
    python gate_webhook.py policy.toml

Create the webhook in MLflow once, with the same secret:

    mlflow.MlflowClient().create_webhook(
        "gate", "https://gate.example.com/", ["model_version.created"], secret=os.environ["GATE_WEBHOOK_SECRET"])
"""

from __future__ import annotations

import hmac
import json
import os
import sys
import threading
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import mlflow
from mlflow.webhooks.delivery import _generate_hmac_signature  # MLflow has no public function for its signature

import ens_plugin

PORT = 8642
TOLERANCE_S = 300  # MLflow's documentation asks for it
LONGEST = 1_000_000
waiting: Queue[str] = Queue()


def name_of(headers: Message, body: bytes, secret: str) -> str | None:
    """Return the name of the registered model that a delivery is about; None for one that is not MLflow's."""
    delivery, sent = headers.get("x-mlflow-delivery-id", ""), headers.get("x-mlflow-timestamp", "")
    signature = _generate_hmac_signature(secret, delivery, sent, body.decode("utf-8", "replace"))
    if not hmac.compare_digest(signature.encode(), headers.get("x-mlflow-signature", "").encode()):
        return None
    if not sent.isdecimal() or abs(time.time() - int(sent)) > TOLERANCE_S:
        return None
    event = json.loads(body)
    return str(event["data"]["name"]) if event["entity"] == "model_version" else None


def newest_version(name: str) -> str:
    """Return the URI of the newest version: a delivery that comes late must not judge an old one."""
    versions = mlflow.MlflowClient().search_model_versions(f"name = '{name}'")
    return f"models:/{name}/{max(int(found.version) for found in versions)}"


def judge(policy: str) -> None:
    """Judge versions one after the other, as long as the program runs."""
    while True:
        name = waiting.get()
        try:
            print(ens_plugin.gate(newest_version(name), policy, promote="champion"), flush=True)
        except Exception as error:  # one version without a verdict must not leave all later ones without
            print(f"No verdict on {name}: {error}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    """Takes a delivery at once and leaves the judging to another thread, because MLflow waits a few seconds only."""

    timeout = 20  # seconds of waiting for a client

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > LONGEST:
            self.send_error(413)
            return
        try:
            name = name_of(self.headers, self.rfile.read(int(size)), os.environ["GATE_WEBHOOK_SECRET"])
        except (ValueError, KeyError, TypeError):
            self.send_error(400)
            return
        if name is None:
            self.send_error(401)
            return
        waiting.put(name)
        self.send_response(202)
        self.end_headers()


if __name__ == "__main__":
    if len(os.environ.get("GATE_WEBHOOK_SECRET", "")) < 16:
        sys.exit("Set GATE_WEBHOOK_SECRET to the secret of the webhook, 16 characters or more.")
    threading.Thread(target=judge, args=(sys.argv[1],), daemon=True).start()
    print(f"Listening on 127.0.0.1:{PORT}.", flush=True)
    ThreadingHTTPServer(("127.0.0.1", PORT), Receiver).serve_forever()
