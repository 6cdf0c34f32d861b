"""From bytes to text: the right encoding, or none."""

import codecs

import pytest

from knowport.adapters.loading.decode import Decoded, decode
from knowport.errors import LoadError

CHINESE = (
    "# 数据库连接超时\n\n"
    "连接池耗尽时，先检查慢查询，再重启应用服务器。错误码 1040 表示连接数过多。\n"
)
TRADITIONAL = (
    "# 記憶體使用率過高\n\n當伺服器記憶體使用率持續超過八成時，可能會導致應用程式回應變慢。\n"
)
JAPANESE = (
    "# データベースの再起動\n\n接続プールが枯渇した場合は、まずスロークエリを確認してください。\n"
)
KOREAN = (
    "# 데이터베이스 재시작\n\n"
    "연결 풀이 고갈되면 먼저 느린 쿼리를 확인하고 서버를 다시 시작하십시오.\n"
)
FRENCH = (
    "Résumé de l'incident : la base n'était pas joignable, délai dépassé, reprise à 8 h « ok ».\n"
)
GERMAN = "Größe prüfen, Dienst für Köln neu starten; Überlauf möglich. Später nochmals prüfen: ß.\n"


def refused(data, **options):
    with pytest.raises(LoadError) as error:
        decode(data, **options)
    return error.value


@pytest.mark.parametrize(
    ("text", "encoding", "recorded"),
    [
        (CHINESE, "utf-8", "utf-8"),
        (CHINESE, "utf-8-sig", "utf-8-sig"),
        (CHINESE, "gbk", "gb18030"),
        (CHINESE + "𠮷野家 €100", "gb18030", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc_jp", "euc_jp"),
        (KOREAN, "euc_kr", "cp949"),
        (FRENCH, "latin-1", "cp1252"),
        (FRENCH, "cp1252", "cp1252"),
        (GERMAN, "cp1252", "cp1252"),
        (CHINESE, "utf-16-le", "utf-16-le"),
        (CHINESE, "utf-16-be", "utf-16-be"),
        ("plain English text", "utf-16-le", "utf-16-le"),
        ("plain English text", "utf-16-be", "utf-16-be"),
        ("plain", "ascii", "utf-8"),
    ],
)
def test_a_text_is_read_in_its_encoding(text, encoding, recorded):
    assert decode(text.encode(encoding)) == Decoded(text, recorded)


@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        ("\ufeff".encode("gb18030"), "gb18030"),
    ],
)
def test_a_bom_decides_and_is_no_part_of_the_text(bom, encoding):
    assert decode(bom + CHINESE.encode(encoding)) == Decoded(CHINESE, encoding)


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "shift_jis", "euc_kr", "cp1252"])
def test_the_same_bytes_are_always_read_alike(encoding):
    text = {"gb18030": CHINESE, "big5": TRADITIONAL, "shift_jis": JAPANESE, "euc_kr": KOREAN}
    data = text.get(encoding, FRENCH).encode(encoding)

    assert len({decode(data) for _ in range(20)}) == 1


def test_text_beyond_ascii_may_come_late():
    ascii_lines = "This line says nothing of the encoding.\n" * 20_000

    assert decode((ascii_lines + CHINESE).encode("gbk")) == Decoded(
        ascii_lines + CHINESE, "gb18030"
    )


def test_one_long_line_is_read_although_only_a_part_is_looked_at():
    line = CHINESE.replace("\n", "") * 4_000

    assert decode(line.encode("gbk")).text == line
    assert decode(("x" + line).encode("gbk")).text == "x" + line


@pytest.mark.parametrize(
    "data",
    [
        "备份".encode("gbk"),  # too little to tell it from Korean
        "Résumé".encode("latin-1"),
        "Zażółć gęślą jaźń, proszę zrestartować serwer; świetnie działa".encode("cp1250"),
        "Перезапустите сервер базы данных, если пул соединений исчерпан".encode("cp1251"),
        "Перезапустите сервер базы данных, если пул соединений исчерпан".encode("koi8-r"),
        "End 备".encode()[:-1],
        "lone \ud800 surrogate".encode("utf-8", "surrogatepass"),
        b"\xc0\xaf overlong",
    ],
)
def test_what_is_not_sure_is_refused(data):
    error = refused(data)

    assert error.reason == "unknown_encoding"
    assert error.remedy == "Convert it to UTF-8."


def test_signs_that_all_windows_encodings_share_are_sure():
    text = "It’s done – see “notes” … © 2024, 25 °C"

    assert decode(text.encode("cp1252")) == Decoded(text, "cp1252")


def test_utf_8_with_a_few_bad_bytes_is_read_without_them():
    between = CHINESE.encode() + b"\xff\xfe" + CHINESE.encode() * 2
    inside = CHINESE.encode() * 3 + "备".encode()[:2]

    assert decode(between) == Decoded(CHINESE * 3, "utf-8", lost=2)
    assert decode(inside) == Decoded(CHINESE * 3, "utf-8", lost=2)


def test_a_stray_nul_does_not_make_a_text_binary():
    assert decode(b"api\0-gateway first, F\0-13") == Decoded("api\0-gateway first, F\0-13", "utf-8")


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4,
        b"\0" * 100,
        b"\x01\x02\x03\x04 abc",
        codecs.BOM_UTF16_LE + b"\1\0\2\0" * 9,
        CHINESE.encode("utf-32-le"),
    ],
    ids=["all bytes", "zeros", "controls", "controls after a BOM", "utf-32 without BOM"],
)
def test_binary_data_is_refused(data):
    error = refused(data)

    assert (error.reason, error.message) == ("not_text", "The file holds binary data.")


@pytest.mark.parametrize(
    ("head", "text", "encoding", "recorded"),
    [
        ('<meta charset="gb2312">', "值班制度 镕基路", "gbk", "gb18030"),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=GBK">',
            "值班",
            "gbk",
            "gb18030",
        ),
        ("<meta charset=iso-8859-1>", "café “x”", "cp1252", "cp1252"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>', "再起動", "cp932", "cp932"),
        ('<meta charset="windows-1251">', "Привет", "cp1251", "cp1251"),
        ('<meta charset="big5">', "記憶體", "big5", "big5hkscs"),
        ('<meta charset="gbk">', "其实是统一码", "utf-8", "utf-8"),  # it is wrong
        ("<meta charset=rot13>", "plain", "utf-8", "utf-8"),
        ("<meta charset=no-such-thing>", CHINESE, "gbk", "gb18030"),
    ],
)
def test_html_may_say_its_encoding(head, text, encoding, recorded):
    decoded = decode(head.encode() + text.encode(encoding), declares=True)

    assert decoded == Decoded(head + text, recorded)


def test_html_that_says_utf_8_is_read_without_its_bad_bytes():
    page = b'<meta charset="utf-8"><p>' + b"plain English " * 10 + b"caf\xe9</p>"

    assert decode(page, declares=True).lost == 1
    assert decode(page, declares=True).text.endswith("caf</p>")
    assert refused(page).reason == "unknown_encoding"


def test_other_texts_do_not_say_their_encoding():
    assert (
        refused('A page says <meta charset="gbk">.备份'.encode("gbk")).reason == "unknown_encoding"
    )
