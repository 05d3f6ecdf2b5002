"""Tables in C++: the rows of an array of records, by the text between their braces."""

import re

STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.S)
TABLE = re.compile(r"\b(\w+)(?:\[\w*\])?\s*(?:=\s*)?\{(?=\s*\{)")
FIRST_STRING = re.compile(r'^\{\s*"((?:\\.|[^"\\])*)"')


def without_comments(text):
    return STRING_OR_COMMENT.sub(lambda found: "" if found[0][0] == "/" else found[0], text)


def rows_from(text, at):
    """The records between the brace at this place and its end, each with its braces, blanks joined."""
    rows, depth, start = [], 0, at
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{}]', text[at:]):
        if token[0] == "{":
            depth += 1
            start = token.start() if depth == 2 else start
        elif token[0] == "}":
            depth -= 1
            if depth == 1:
                rows.append(" ".join(text[at + start : at + token.end()].split()))
            if depth == 0:
                break
    return rows


def tables(text):
    """Pairs of a name and the rows, of each initializer whose first element is a record."""
    plain = without_comments(text)
    return [(found[1], rows_from(plain, found.end() - 1)) for found in TABLE.finditer(plain)]


def rows(text, name):
    """The rows of the table of this name; none if there is no such table."""
    return next((rows for found, rows in tables(text) if found == name), [])


def first_strings(rows):
    return [found[1] for found in map(FIRST_STRING.match, rows) if found]


def repeated(items):
    seen = set()
    return sorted({item for item in items if item in seen or seen.add(item)})
