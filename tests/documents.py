"""Makes small documents of each format, good and bad."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package'
    '.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override '
    'PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
    'relationships"><Relationship Id="r1" Target="word/document.xml" Type="http://schemas.'
    'openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>'
)
_STYLES_RELATION = _RELATIONS.replace("word/document.xml", "styles.xml").replace(
    "/officeDocument", "/styles"
)
STYLES = f"""<w:styles {_W}>
<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Base"><w:name w:val="Base"/>
  <w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Ours"><w:name w:val="Our Heading"/>
  <w:basedOn w:val="Base"/></w:style>
<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style>
</w:styles>"""


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """A ZIP archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def paragraph(text: str, style: str = "", run: str = "") -> str:
    """A paragraph of a Word document; ``run`` are properties of its run."""
    styled = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    words = f'<w:t xml:space="preserve">{text}</w:t>'
    return f"<w:p>{styled}<w:r><w:rPr>{run}</w:rPr>{words}</w:r></w:p>"


def word_table(rows: Sequence[Sequence[str]]) -> str:
    """A table of a Word document."""
    cells = ["".join(f"<w:tc>{paragraph(c)}</w:tc>" for c in row) for row in rows]
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def docx(body: str, *, prolog: str = "", title: str = "", **more: str | bytes) -> bytes:
    """A Word document; ``more`` are parts by name, with _ for / and a file ending."""
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/'
        f'core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}'
        "</dc:title></cp:coreProperties>"
    )
    return archive(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _RELATIONS,
            "docProps/core.xml": core,
            "word/_rels/document.xml.rels": _STYLES_RELATION,
            "word/styles.xml": STYLES,
            "word/document.xml": f"{prolog}<w:document {_W}><w:body>{body}</w:body></w:document>",
            **more,
        }
    )


def lying_archive(data: bytes, name: str, size: int) -> bytes:
    """The archive, which now says that the entry inflates to ``size`` bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        true = file.getinfo(name).file_size
    return data.replace(true.to_bytes(4, "little"), size.to_bytes(4, "little"))


def pptx(*slides: Mapping[str, Any]) -> bytes:
    """A presentation; a slide has ``title``, ``bullets`` as (level, text), ``table``, ``notes``
    and ``hidden``."""
    from pptx import Presentation
    from pptx.util import Inches

    presentation = Presentation()
    for content in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = content.get("title", "")
        frame = slide.placeholders[1].text_frame
        for number, (level, text) in enumerate(content.get("bullets", ())):
            bullet = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
            bullet.text, bullet.level = text, level
        if rows := content.get("table"):
            box = (Inches(1),) * 4
            table = slide.shapes.add_table(len(rows), len(rows[0]), *box).table
            for y, row in enumerate(rows):
                for x, value in enumerate(row):
                    table.cell(y, x).text = value
        if notes := content.get("notes"):
            slide.notes_slide.notes_text_frame.text = notes
        if content.get("hidden"):
            slide.element.set("show", "0")
    stream = io.BytesIO()
    presentation.save(stream)
    return stream.getvalue()


def xlsx(sheets: Mapping[str, Sequence[Sequence[Any]]], *, hidden: str = "") -> bytes:
    """A workbook; ``hidden`` names a sheet."""
    import xlsxwriter

    stream = io.BytesIO()
    with xlsxwriter.Workbook(stream, {"default_date_format": "yyyy-mm-dd"}) as workbook:
        for name, rows in sheets.items():
            sheet = workbook.add_worksheet(name)
            for y, row in enumerate(rows):
                for x, value in enumerate(row):
                    sheet.write(y, x, value)
            if name == hidden:
                sheet.hide()
    return stream.getvalue()


def pdf(*pages: Sequence[str], title: str = "", encrypt: str = "") -> bytes:
    """A PDF with the lines of each page; ``encrypt`` is ``""``, ``"owner"`` or ``"user"``."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for lines in pages:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        words = " ".join(f"({line}) Tj 0 -20 Td" for line in lines)
        stream = f"BT /F1 12 Tf 72 720 Td {words} ET"
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    trailer = f"/Root 1 0 R /Info {len(objects)} 0 R"
    if encrypt:
        objects.append(_encryption(by_user=encrypt == "user"))
        trailer += f" /Encrypt {len(objects)} 0 R /ID [<{_ID.hex()}> <{_ID.hex()}>]"
    out = "%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        f"{out}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
        f"<< /Size {len(objects) + 1} {trailer} >>\nstartxref\n{len(out)}\n%%EOF\n"
    ).encode("latin-1")


_ID = b"0123456789abcdef"
_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def _encryption(*, by_user: bool) -> str:
    """The dictionary of the oldest encryption; without a user password anybody may read."""
    owner = bytes(range(32))
    password = b"secret" + _PADDING[: 32 - 6] if by_user else _PADDING
    key = hashlib.md5(password + owner + b"\xfc\xff\xff\xff" + _ID).digest()[:5]
    return (
        f"<< /Filter /Standard /V 1 /R 2 /O <{owner.hex()}> /U <{_rc4(key, _PADDING).hex()}> "
        "/P -4 >>"
    )


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
