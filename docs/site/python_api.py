"""The reference of the Python package: signatures from the type stubs (python/einkorn/*.pyi), explanations from the
docstrings of the modules, and of the C extension's tables of methods."""
import ast
import re


def docstrings(package):
    """{qualified name: docstring} of the package's modules."""
    found = {}
    for file in sorted(package.glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                found.setdefault(node.name, ast.get_docstring(node))
                for member in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(member, ast.FunctionDef):
                        found.setdefault("%s.%s" % (node.name, member.name), ast.get_docstring(member))
    row = re.compile(r'\{"([a-z]\w*)", [^{}]*?METH_[A-Z |_]*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}')
    for file, prefix in (("core.c", ""), ("module.c", "Module.")):
        for name, text in row.findall((package.parent / "extension" / file).read_text(encoding="utf-8")):
            doc = "".join(ast.literal_eval(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', text))
            signature, _, rest = doc.partition("\n\n")
            if not found.get(prefix + name):
                found[prefix + name] = rest if signature.startswith(name + "(") else doc
    return found


def signature(node, method=False):
    """A function of the stub as a call with types: one line, or a parameter a line where that is too long."""
    names, depth, start, text = [], 0, 0, ast.unparse(node.args) + ","
    for at, ch in enumerate(text):
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0:
            names.append(re.sub(r"^(\w+: [^=]*)=", r"\1 = ", text[start:at].strip()))
            start = at + 1
    if method and names[0] in ("self", "cls"):
        names = names[1:]
    result = " -> " + ast.unparse(node.returns) if node.returns else ""
    line = "%s(%s)%s" % (node.name, ", ".join(names), result)
    return line if len(line) <= 90 else "%s(\n    %s,\n)%s" % (node.name, ",\n    ".join(names), result)


def explained(doc):
    """A docstring as Markdown: its indented parts and tables of parameters are blocks."""
    out = []
    for part in re.split(r"\n\s*\n", doc or ""):
        rows = part.split("\n")
        if all(row.startswith("    ") for row in rows):
            out += ["``` python"] + [row[4:] for row in rows] + ["```", ""]
        elif len(rows) > 2 and re.match(r"\w+ {2,}", rows[0]):
            table = []
            for row in rows:
                name, _, text = row.partition(" ") if not row.startswith(" ") else ("", "", row)
                if name:
                    table.append([name, text.strip()])
                else:
                    table[-1][1] += " " + text.strip()
            out += ["| | |", "|---|---|"] + ["| `%s` | %s |" % tuple(row) for row in table] + [""]
        else:
            out += [re.sub(r"``(.+?)``", r"`\1`", part), ""]
    return out


def function(nodes, docs, name, level, method=False):
    """A heading, the signatures (several where the stub overloads) and the explanation."""
    return (["%s %s" % ("#" * level, name), "", "``` python"] + [signature(n, method) for n in nodes] +
            ["```", ""] + explained(docs.get(name)))


def members(node, docs):
    """A class's attributes, properties and methods."""
    out, rows, seen = [], [], {}
    for m in node.body:
        if isinstance(m, ast.AnnAssign):
            rows.append("| `%s: %s` | |" % (m.target.id, ast.unparse(m.annotation)))
        elif isinstance(m, ast.FunctionDef) and any(ast.unparse(d) == "property" for d in m.decorator_list):
            text = " ".join((docs.get("%s.%s" % (node.name, m.name)) or "").split())
            rows.append("| `%s: %s` | %s |" % (m.name, ast.unparse(m.returns), text))
        elif isinstance(m, ast.FunctionDef) and (not m.name.startswith("_") or m.name in ("__init__", "__call__")):
            seen.setdefault(m.name, []).append(m)
    if rows:
        out += ["| | |", "|---|---|"] + rows + [""]
    for name, nodes in seen.items():
        full = "%s.%s" % (node.name, name)
        if name.startswith("__"):
            shown = [re.sub(r"^__\w+__", node.name if name == "__init__" else node.name.lower(), signature(n, True))
                     for n in nodes]
            out += ["``` python"] + [re.sub(r" -> None$", "", s) for s in shown] + ["```", ""]
        else:
            out += function(nodes, docs, full, 3, True)
    return out


def stub(tree, docs):
    """What a stub declares: functions and classes in its order, errors and other names in tables."""
    functions, classes, errors, types = {}, [], [], []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
            errors.append("| `%s` | %s |" % (node.name, ", ".join("`%s`" % ast.unparse(b) for b in node.bases)))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes.append(node)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            types.append("| `%s` | `%s` |" % (node.target.id, ast.unparse(node.value)))
    out = []
    for name, nodes in functions.items():
        out += function(nodes, docs, name, 2)
    for node in classes:
        out += ["## %s" % node.name, ""] + explained(docs.get(node.name)) + members(node, docs)
    if errors:
        out += ["## Errors", "", "| error | is a |", "|---|---|"] + errors + [""]
    if types:
        out += ["## Types in signatures", "", "| name | stands for |", "|---|---|"] + types + [""]
    return out


def page(project):
    package = project / "python/einkorn"
    docs = docstrings(package)
    out = ["# Python", "", "The package `einkorn`. Its manual is [Einkorn from Python](../python.md).", ""]
    out += stub(ast.parse((package / "__init__.pyi").read_text(encoding="utf-8")), docs)
    out += ["## einkorn.backend", "", "ONNX's backend interface; [its manual](../python.md#a-backend-of-onnx).", ""]
    for node in ast.parse((package / "backend.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            out += ["### %s" % node.name, ""] + explained(docs.get(node.name)) + ["``` python"]
            out += [signature(m, True) for m in node.body if isinstance(m, ast.FunctionDef)] + ["```", ""]
    return "\n".join(out)
