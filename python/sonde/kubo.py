"""A kit over an IPFS daemon: Kubo's RPC interface (POST /api/v0/…), with the standard library only.

It has what kit_benchmark.py measures and no more, and keeps nothing: every read is one of the
daemon."""

from __future__ import annotations

import http.client
import io
import json
import os
import secrets
import urllib.parse
from typing import Any, BinaryIO

ANSWER_BYTES_MAX = 1 << 30


class KuboError(OSError):
    """The daemon does not answer, or says no; the message has its words."""


class Kubo:
    """Safe in threads: each call has a connection of its own."""

    def __init__(self, port: int = 5001, host: str = "127.0.0.1", timeout: float = 60) -> None:
        self.host, self.port, self.timeout = host, port, timeout

    def _post(self, command: str, body: bytes = b"", content_type: str = "", **given: Any) -> bytes:
        query = urllib.parse.urlencode(given)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            headers = {"Content-Type": content_type} if content_type else {}
            connection.request("POST", f"/api/v0/{command}?{query}", body, headers)
            answer = connection.getresponse()
            data = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as failed:
            raise KuboError(f"no IPFS daemon answers at {self.host}:{self.port}: {failed}; start "
                            "one (`ipfs daemon`), or name its port") from failed
        finally:
            connection.close()
        if len(data) > ANSWER_BYTES_MAX:
            raise KuboError(f"{command}: the answer has more than {ANSWER_BYTES_MAX} bytes")
        if answer.status != 200:
            raise KuboError(f"{command}: {_reason(data) or f'status {answer.status}'}")
        return data

    def _json(self, command: str, **given: Any) -> dict[str, Any]:
        return _object(command, self._post(command, **given))

    def ipfs_version(self) -> dict[str, Any]:
        return self._json("version")

    def ipfs_add_file(self, path: str) -> dict[str, Any]:
        with open(path, "rb") as source:
            content = source.read()
        boundary = secrets.token_hex(16)
        name = urllib.parse.quote(os.path.basename(path))
        body = (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + content + (
                    f"\r\n--{boundary}--\r\n").encode()
        data = self._post("add", body, f"multipart/form-data; boundary={boundary}")
        added = _object("add", data.strip().rsplit(b"\n", 1)[-1])
        return {"success": True, "cid": added["Hash"], "size": len(content)}

    def ipfs_cat(self, cid: str) -> bytes:
        return self._post("cat", arg=cid)

    def ipfs_pin_add(self, cid: str) -> dict[str, Any]:
        return self._json("pin/add", arg=cid)

    def ipfs_pin_ls(self) -> dict[str, Any]:
        return self._json("pin/ls", type="recursive")

    def ipfs_pin_rm(self, cid: str) -> dict[str, Any]:
        return self._json("pin/rm", arg=cid)

    def get_filesystem(self) -> "KuboFileSystem":
        return KuboFileSystem(self)


class KuboFileSystem:
    """Reading by id, with the names of fsspec."""

    def __init__(self, kubo: Kubo) -> None:
        self._kubo = kubo

    def cat(self, cid: str) -> bytes:
        return self._kubo.ipfs_cat(cid)

    def open(self, cid: str, mode: str = "rb") -> BinaryIO:
        if mode != "rb":
            raise ValueError(f"mode {mode!r}: content of an id is only read, as rb")
        return io.BytesIO(self.cat(cid))

    def info(self, cid: str) -> dict[str, Any]:
        stat = self._kubo._json("files/stat", arg=f"/ipfs/{cid}")
        return {"name": cid, "size": stat["Size"], "type": stat["Type"]}

    def ls(self, cid: str) -> list[dict[str, Any]]:
        listed = self._kubo._json("ls", arg=cid)
        return [{"name": link["Name"], "cid": link["Hash"], "size": link["Size"]}
                for found in listed["Objects"] for link in found["Links"]]


def _object(command: str, data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise KuboError(f"{command}: the answer is not what an IPFS daemon says: {data[:80]!r}")
    return answer


def _reason(data: bytes) -> str:
    try:
        return str(json.loads(data)["Message"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace").strip()
