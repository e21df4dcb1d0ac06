"""Tables of pages, between the comments `<!-- begin: SCRIPT -->` and `<!-- end: SCRIPT -->`, written by that script."""


def head(columns):
    """The first two lines of a table."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def rows(path, script):
    """The lines of the table that is in the page, by their first cells."""
    with open(path, encoding="utf-8") as file:
        table = file.read().split("<!-- begin: %s -->\n" % script)[1].split("<!-- end: %s -->" % script)[0]
    return {line.split(" | ")[0]: line for line in table.split("\n")[3:] if line}


def write(path, script, lines):
    """Puts the lines between the script's comments in the page."""
    begin, end = "<!-- begin: %s -->\n" % script, "<!-- end: %s -->\n" % script
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1])
