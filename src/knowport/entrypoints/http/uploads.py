"""A document as a request brings it: JSON, the text itself, or a form with a file."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import FormData, UploadFile

from knowport.entrypoints.http import schemas, strict_json
from knowport.entrypoints.http.problems import Problem
from knowport.entrypoints.http.replies import media_type, refuse_other_types, validated
from knowport.model import Metadata, TextFormat

JSON, FORM = "application/json", "multipart/form-data"
TEXTS: Mapping[str, TextFormat] = {"text/markdown": "markdown", "text/plain": "plain"}
FORM_FIELDS = ("id", "title", "category", "source", "kb_scope", "metadata")

PUT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/DocumentBody"}},
            # No schema: whatever stands there is the text.
            "text/markdown": {"example": "# 锁等待\n\n查视图。\n"},
            "text/plain": {"example": "Badge printer: HP-950XL.\n"},
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "metadata": {"type": "string", "description": "A JSON object."},
                        **{n: {"type": "string"} for n in FORM_FIELDS if n != "metadata"},
                    },
                }
            },
        },
    }
}


@dataclass(frozen=True, slots=True)
class Upload:
    """A document that was sent. ``data`` are the bytes of a file of that ``name``; without them
    ``text`` is the document. ``fields`` are the id and what is said beside the text."""

    fields: Mapping[str, str | None]
    text: str = ""
    text_format: TextFormat = "markdown"
    data: bytes | None = None
    name: str = ""
    metadata: Metadata | None = field(default=None)


async def read_upload(request: Request, asked: Mapping[str, str | None]) -> Upload:
    """The document of a request; ``asked`` are the fields of its query, which must not say
    otherwise than the body. Raises Problem and RequestValidationError."""
    refuse_other_types(request, JSON, FORM, *TEXTS)
    kind = media_type(request)
    if kind == JSON:
        # As large as a document may be, so not on the thread that answers everybody.
        return _of_json(await asyncio.to_thread(strict_json.loads, await request.body()), asked)
    if kind == FORM:
        async with request.form(max_files=1, max_fields=len(FORM_FIELDS)) as form:
            return await _of_form(form, asked)
    return Upload(asked, _decoded(request, await request.body()), TEXTS[kind])


def _of_json(value: Any, asked: Mapping[str, str | None]) -> Upload:
    body = validated(schemas.DocumentBody, value)
    fields = _merged(asked, body.model_dump(include=set(asked)))
    return Upload(fields, body.text, body.text_format, metadata=body.metadata)


async def _of_form(form: FormData, asked: Mapping[str, str | None]) -> Upload:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise _unfit("file", "The form has no file.")
    sent: dict[str, str] = {}
    for name, value in form.multi_items():
        if name == "file":
            continue
        if name not in FORM_FIELDS or name in sent or not isinstance(value, str):
            raise _unfit(name, "The form has a field that is not known, or has it twice.")
        sent[name] = value
    metadata = sent.pop("metadata", None)
    return Upload(
        _merged(asked, sent),
        data=await file.read(),
        name=file.filename or "",
        metadata=None if metadata is None else _object(metadata),
    )


def _object(text: str) -> dict[str, Any]:
    value = strict_json.loads(text.encode())
    if not isinstance(value, dict):
        raise _unfit("metadata", "It must be a JSON object.")
    return value


def _unfit(name: str, message: str) -> RequestValidationError:
    return RequestValidationError([{"type": "value_error", "loc": ("body", name), "msg": message}])


def _merged(asked: Mapping[str, str | None], sent: Mapping[str, Any]) -> dict[str, str | None]:
    for name, value in asked.items():
        if value is not None and sent.get(name) not in (None, value):
            raise Problem(
                400,
                "contradiction",
                f"The query and the body give {name} differently.",
                remedy="Give it once.",
            )
    return {name: value if value is not None else sent.get(name) for name, value in asked.items()}


def _decoded(request: Request, body: bytes) -> str:
    named = request.headers.get("content-type", "").lower().partition("charset=")[2]
    charset = named.partition(";")[0].strip(' "') or "utf-8"
    try:
        if codecs.lookup(charset).name != "utf-8":
            raise LookupError
        return body.decode("utf-8-sig")
    except LookupError:
        raise Problem(
            415,
            "charset",
            f"A text is taken in UTF-8, not in {charset!r}.",
            remedy="Convert it, or send it as a file in a form: its encoding is then found out.",
        ) from None
    except UnicodeDecodeError as error:
        raise Problem(
            400,
            "invalid_utf8",
            f"Byte {error.start} of the text is not UTF-8.",
            remedy="Convert it, or send it as a file in a form: its encoding is then found out.",
        ) from None
