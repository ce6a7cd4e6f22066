import pytest

from sklearn_seqlab.datasets._columns import parse_columns


def test_blanks_tabs_line_ends_and_empty_lines():
    data, target = parse_columns("\n\na  b X\r\nc\td Y \n \t\n\ne f Z", what="text")
    assert data == [[("a", "b"), ("c", "d")], [("e", "f")]]
    assert [y.tolist() for y in target] == [["X", "Y"], ["Z"]]
    assert all(y.dtype == object for y in target)


def test_other_white_space_is_text():
    data, _ = parse_columns("\u3000 S O\n\x85 S O\n\u2028x S O\n", what="text")
    assert data == [[("\u3000", "S"), ("\x85", "S"), ("\u2028x", "S")]]


def test_line_with_one_column():
    with pytest.raises(ValueError, match="text line 2 has one column"):
        parse_columns("a b X\nlonely\n", what="text")
