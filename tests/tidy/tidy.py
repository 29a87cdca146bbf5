#!/usr/bin/env python3
"""Checks the house rules over the sources of a project: tidy.py [ROOT]. One line a finding; exit status 1 if any.

Looks at what git tracks or would track; without git, at everything outside build/ and hidden folders.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path, PurePosixPath

import house

CPP = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
HEADERS = {".hpp", ".cuh", ".h"}
CODE = CPP | {".py", ".sh", ".cmake"}
BINARY = {".pickle", ".png", ".jpg", ".ico", ".gz", ".bin", ".der", ".db"}


class File:
    """A text file: `lines` as written, `code` with comments and strings blanked, `comments` as (line, text)."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.suffix = PurePosixPath(path).suffix
        if PurePosixPath(path).name == "CMakeLists.txt":
            self.suffix = ".cmake"
        elif not self.suffix and text.startswith("#!") and ("sh" in self.lines[0] or "bash" in self.lines[0]):
            self.suffix = ".sh"
        self.code, self.comments = split_code(self.suffix, text)
        self.code_lines = self.code.splitlines()

    def within(self, *prefixes):
        return self.path.startswith(prefixes)

    def line_of(self, offset):
        return self.code.count("\n", 0, offset) + 1


def split_code(suffix, text):
    if suffix in CPP:
        return split_cpp(text)
    if suffix == ".py":
        return split_python(text)
    return text, [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")]


CPP_TOKEN = re.compile(
    r'//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/'
    r'|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'', re.S)


def split_cpp(text):
    comments = []

    def blank(match):
        token = match.group()
        if token.startswith("/"):
            first = text.count("\n", 0, match.start()) + 1
            comments.extend((first + n, line) for n, line in enumerate(token.split("\n")))
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return CPP_TOKEN.sub(blank, text), comments


def split_python(text):
    lines = text.splitlines(keepends=True)
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string))
        for row in range(token.start[0], token.end[0] + 1):
            line = lines[row - 1]
            begin = token.start[1] if row == token.start[0] else 0
            end = token.end[1] if row == token.end[0] else len(line.rstrip("\n"))
            lines[row - 1] = line[:begin] + " " * (end - begin) + line[end:]
    return "".join(lines), comments


class Project:
    def __init__(self, files):
        self.files = [File(path, text) for path, text in sorted(files.items())]
        self.by_path = {f.path: f for f in self.files}
        self.folders = {str(p) for path in files for p in PurePosixPath(path).parents} - {"."}
        self.top = {folder for folder in self.folders if "/" not in folder and not folder.startswith(".")}
        self.cpp = [f for f in self.files if f.suffix in CPP]

    @staticmethod
    def read(root):
        listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                 capture_output=True, check=False)
        if listing.returncode == 0:
            paths = {p for p in listing.stdout.decode().split("\0") if p}
        else:
            paths = {str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file()}
            paths = {p for p in paths if not p.startswith("build/") and "/." not in "/" + p}
        files = {}
        for path in paths:
            full = os.path.join(root, path)
            if PurePosixPath(path).suffix not in BINARY and os.path.isfile(full):
                with open(full, encoding="utf-8", errors="replace") as f:
                    files[path] = f.read()
        return Project(files)


def includes(file):
    """(line, header, is_quoted) of every #include."""
    for n, line in enumerate(file.lines, 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if match and file.code_lines[n - 1].lstrip().startswith("#"):
            yield n, match.group(2), match.group(1) == '"'


def match_lines(file, pattern, lines=None):
    regex = re.compile(pattern)
    for n, line in enumerate(lines if lines is not None else file.code_lines, 1):
        match = regex.search(line)
        if match:
            yield n, match.group().strip()


# Every rule takes the project and yields (path, line, what is wrong, and what to do).

def file_length(project):
    for f in project.files:
        if f.suffix in CODE and len(f.lines) > house.MAX_FILE_LINES:
            yield f.path, 1, f"{len(f.lines)} lines; split it by activity into files of at most {house.MAX_FILE_LINES}"


def line_length(project):
    for f in project.files:
        for n, line in enumerate(f.lines, 1):
            if f.suffix in CODE and len(line) > house.MAX_LINE_LENGTH and "://" not in line:
                yield f.path, n, f"{len(line)} columns; break the line at {house.MAX_LINE_LENGTH}"


def cpp_functions(file):
    """(first line, last line) of every outermost function body, lambdas at namespace scope included."""
    directive = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
    code = directive.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), file.code)
    blocks, head, depth = [], 0, 0
    for at, char in enumerate(code):
        if char in "()":
            depth = max(0, depth + (1 if char == "(" else -1))
        elif char == "{":
            text = code[head:at]
            function = not any(b[0] for b in blocks) and is_function_head(text)
            blocks.append((function, head + len(text) - len(text.lstrip()), depth))
            head, depth = at + 1, 0
        elif char == "}" and blocks:
            function, start, depth = blocks.pop()
            if function:
                yield file.line_of(start), file.line_of(at)
            head = at + 1
        elif char == ";" and depth == 0:
            head = at + 1


def is_function_head(text):
    text = re.sub(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", " ", text).strip()
    text = re.sub(r"^(public|private|protected)\s*:", "", text).strip()
    if ")" not in text or re.match(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b", text):
        return False
    return not re.search(r"(=|,|\(|\breturn)$", text)


def function_length(project):
    for f in project.files:
        spans = []
        if f.suffix in CPP:
            spans = cpp_functions(f)
        elif f.suffix == ".py":
            spans = ((node.lineno, node.end_lineno) for node in ast.walk(ast.parse(f.text))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        for first, last in spans:
            if last - first + 1 > house.MAX_FUNCTION_LINES:
                yield f.path, first, (f"function of {last - first + 1} lines; "
                                      f"split it into steps of at most {house.MAX_FUNCTION_LINES}")


def confined_headers(project):
    for f in project.cpp:
        for n, header, _ in includes(f):
            for pattern, places, instead in house.CONFINED:
                if re.match(pattern, header) and not f.within("tests/", "benchmarks/", *places):
                    yield f.path, n, f"{header} is confined to {', '.join(places)}: {instead}"


def one_toml_folder(project):
    users = [(f, n) for f in project.cpp for n, header, _ in includes(f) if header.startswith("toml++")]
    folders = Counter(os.path.dirname(f.path) for f, _ in users if not f.within("tests/"))
    home = folders.most_common(1)[0][0] if folders else ""
    for f, n in users:
        if os.path.dirname(f.path) != home and not f.within("tests/"):
            yield f.path, n, f"toml++ is used in {home}/ already: read configuration through it"


def layers(project):
    for f in project.cpp:
        own = f.path.split("/")[0]
        for n, header, quoted in includes(f):
            other = header.split("/")[0]
            helper = f.within("tests/", "benchmarks/") and sibling(f, header) in project.by_path
            if quoted and not helper and ("/" not in header or other not in project.top):
                yield f.path, n, f'"{header}" is no path from the root: write it so, or in <> for a library'
            elif own in house.LAYERS and other in project.top and other not in house.LAYERS[own] | {own}:
                allowed = ", ".join(sorted(house.LAYERS[own])) or "nothing"
                yield f.path, n, f"{own}/ may not use {other}/ (only {allowed}): move what is shared down, or invert it"
            for part, forbidden in house.FORBIDDEN_PARTS.items():
                if f.within(part) and header.startswith(forbidden):
                    yield f.path, n, f"{part} may not use {header}: it knows no network; speak in events and actions"


def pure_state_machines(project):
    for f in project.cpp:
        if f.within(*house.PURE_FOLDERS):
            for n, what in match_lines(f, house.IMPURE):
                yield f.path, n, f"'{what}' in a state machine: take time, randomness and bytes as arguments"


def bare_detached(project):
    for f in project.cpp:
        for n, _ in match_lines(f, r"\bdetached\b"):
            yield f.path, n, "detached throws exceptions away: spawn through a TaskGroup that logs them"


def co_await_temporaries(project):
    for f in project.cpp:
        for match in re.finditer(r"\bco_await\b", f.code):
            what = bad_temporary(f.code, match.end())
            if what:
                yield f.path, f.line_of(match.start()), f"{what} inside a co_await expression: name it, then move it in"


def bad_temporary(code, at):
    depth, before = 0, ""
    while at < len(code):
        char = code[at]
        if char in "([" and not (char == "[" and not re.match(r"[\w\])]", before)):
            depth += 1
        elif char == "[":
            if code[at + 1:].lstrip()[:1] != "]":
                return "a capturing lambda"
            body = code.find("{", at)
            at = closing(code, body) if body >= 0 else len(code)
        elif char == "{":
            return "a braced temporary" if depth > 0 or re.match(r"[\w>]", before) else ""
        elif char in ")]}":
            depth -= 1
        if depth < 0 or (char == ";" and depth == 0):
            return ""
        if not char.isspace():
            before = char
        at += 1
    return ""


def closing(code, at):
    depth = 0
    for end in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        if depth == 0:
            return end
    return len(code)


def sleeping_tests(project):
    for f in project.files:
        if f.within("tests/") and f.suffix in CPP | {".py", ".sh"}:
            for n, what in match_lines(f, r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(|^\s*sleep\s+[\d$]"):
                yield f.path, n, f"'{what}' in a test: wait for the event itself, or use virtual time"


CODE_IN_COMMENT = re.compile(
    r"^(?:[\w:.>-]+\(.*\)\s*;|(?:const |auto |static )?[\w:<>&*]+ [\w.\[\]>-]+ = .+;"
    r"|[\w.>\[\]-]+ [-+|&]?= [\w.:>\[\]-]+(?:\(.*\))?;"
    r"|(?:if|for|while|switch) ?\(.*\) ?\{|return(?: \S+)?;|#\s*include\b.*|\}|\{|std::\w+.*;)$")


def unfinished(project):
    for f in project.files:
        if f.suffix not in CODE:
            continue
        for n, text in f.comments:
            if re.search(r"\b(TODO|FIXME|XXX)\b", text):
                yield f.path, n, "a note of work to do: do it, or say in the open what is missing"
            elif f.suffix in CPP and CODE_IN_COMMENT.match(text.strip().lstrip("/*").strip()):
                yield f.path, n, "commented-out code: delete it; git remembers"


def disabled_tests(project):
    for f in project.cpp:
        for n, _ in match_lines(f, r"\bDISABLED_\w*"):
            yield f.path, n, "a disabled test: repair it or delete it"
        for n, line in enumerate(f.code_lines, 1):
            if re.search(r"\bGTEST_SKIP\s*\(\s*\)(?!\s*<<)", line):
                yield f.path, n, "GTEST_SKIP without a reason: write GTEST_SKIP() << what is missing on this machine"


def header_habits(project):
    for f in project.cpp:
        if f.suffix not in HEADERS:
            continue
        if not re.search(r"^\s*#\s*pragma\s+once\b", f.code, re.M):
            yield f.path, 1, "no #pragma once: make it the first line"
        for n, _ in match_lines(f, r"\busing\s+namespace\b"):
            yield f.path, n, "using namespace in a header reaches everybody who includes it: name what is used"
        for match in re.finditer(r"\bbool\b\s*&?\s*\w*\s*(?:=\s*\w+\s*)?,\s*(?:const\s+)?bool\b", f.code):
            yield f.path, f.line_of(match.start()), "two adjacent bool parameters get swapped: use an enum or a struct"


TYPE_HEAD = re.compile(r"\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:\[\[.*?\]\]\s*)*([A-Za-z_]\w*)"
                       r"\s*(?:final\s*)?(?::(?!:)[^;()]*)?$")


def namespace_types(file):
    """(namespace, name, line) of every type that is defined at namespace scope, outside anonymous namespaces."""
    scopes, head = [], 0
    for match in re.finditer(r"^[ \t]*#.*|[{};]", file.code, re.M):
        if match.group() == "{":
            text = file.code[head:match.start()].strip()
            space = re.search(r"(?:^|\s)namespace(?:\s+([\w:]+))?$", text)
            kind = TYPE_HEAD.search(text)
            if kind and all(scopes) and not re.search(r"\btemplate\s*<\s*>", text):
                yield "::".join(scopes), kind.group(1), file.line_of(match.start())
            scopes.append((space.group(1) or "") if space else "")
        elif match.group() == "}" and scopes:
            scopes.pop()
        head = match.end()


def one_type_a_name(project):
    """Two types of one name in one namespace break the one-definition rule, and no linker says so."""
    first = {}
    for f in project.cpp:
        if f.within("tests/"):
            continue
        for space, name, line in namespace_types(f):
            other = first.setdefault((space, name), f"{f.path}:{line}")
            if other != f"{f.path}:{line}":
                yield f.path, line, (f"{name} is defined at {other} too: give it another name, or put one of them into "
                                     "an anonymous namespace")


def backend_conditionals(project):
    for f in project.cpp:
        if not f.within("kernels/cuda/", "training/cuda/"):
            for n, what in match_lines(f, r"^\s*#\s*(ifdef|ifndef|if|elif)\b.*CUDA"):
                yield f.path, n, f"'{what}': the folder that CMake builds chooses the backend, not the preprocessor"


def common_stays_small(project):
    headers = [f.path for f in project.cpp if f.suffix in HEADERS and f.within("common/")]
    if len(headers) > house.MAX_COMMON_HEADERS:
        yield "common", 1, f"{len(headers)} headers; at most {house.MAX_COMMON_HEADERS}: move what one part uses there"


def sources_are_built(project):
    lists = {os.path.dirname(f.path): re.sub(r"#.*", "", f.text) for f in project.files
             if PurePosixPath(f.path).name == "CMakeLists.txt"}
    lists["cmake"] = "\n".join(re.sub(r"#.*", "", f.text) for f in project.files if f.within("cmake/"))

    def listed(path):
        above = [folder for folder in lists if not folder or path.startswith(folder + "/")]
        names = [(folder, path[len(folder):].lstrip("/")) for folder in above]
        return any(re.search(rf"(^|[\s\"/(]){re.escape(name)}($|[\s\")])", lists[folder]) for folder, name in names)

    users = {}
    for f in project.cpp:
        for _, header, quoted in includes(f):
            path = sibling(f, header) if quoted and "/" not in header else header
            users.setdefault(path, set()).add(f.path.split("/")[0])
    for f in project.files:
        if f.suffix in {".cpp", ".cu", ".fbs"} and not listed(f.path):
            yield f.path, 1, "named in no CMakeLists.txt: list it in its folder's, or delete it"
        elif f.suffix in HEADERS and not f.within("tests/", "benchmarks/") and not listed(f.path):
            others = users.get(f.path, set()) - {f.path.split("/")[0], "tests", "benchmarks"}
            if others:
                yield f.path, 1, f"used by {', '.join(sorted(others))} but among no library's HEADERS: list it"
        if f.suffix in HEADERS and f.path not in users and not listed(f.path):
            yield f.path, 1, "included by nobody and named in no CMakeLists.txt: list it, or delete it"


def sibling(file, header):
    return str(PurePosixPath(file.path).parent / header)


def machine_paths(project):
    for f in project.files:
        for n, what in match_lines(f, r"(?<![\w.~$}])/(?:work|home|root)/", f.lines):
            yield f.path, n, f"'{what}' is a path of one machine: make it relative or an argument"


DOCUMENTS = ("ARCHITECTURE.md", "README.md")


def documents_tell_the_truth(project):
    overview = project.by_path.get("ARCHITECTURE.md")
    for folder in sorted(project.top) if overview else []:
        if not re.search(rf"(?<![\w/]){re.escape(folder)}\b", overview.text):
            yield overview.path, 1, f"the folder {folder}/ is not named: say in one line what it is for"
    for document in (project.by_path[d] for d in DOCUMENTS if d in project.by_path):
        for n, line in enumerate(document.lines, 1):
            for path in named_paths(project, line):
                yield document.path, n, f"{path} does not exist: correct the name or remove it"


def named_paths(project, line):
    words = set(re.findall(r"(?<![\w./:-])[\w.-]+(?:/[\w.-]+)*/?", line))
    words |= set(re.findall(r"\]\(([\w./-]+)\)", line))
    for word in sorted(words):
        path = word.rstrip(".").rstrip("/")
        ours = word.split("/")[0] in project.top or PurePosixPath(path).suffix in CODE | {".md"}
        if ("/" in word and ours) or re.fullmatch(r"[A-Z]+\.md", path):
            inside = any(("/" + folder).endswith("/" + path) for folder in project.folders)
            if not path.startswith("build/") and path not in project.by_path and not inside:
                yield word


RULES = (file_length, line_length, function_length, confined_headers, one_toml_folder, layers, pure_state_machines,
         bare_detached, co_await_temporaries, sleeping_tests, unfinished, disabled_tests, header_habits,
         one_type_a_name, backend_conditionals, common_stays_small, sources_are_built, machine_paths,
         documents_tell_the_truth)


def findings(project, rules=RULES):
    return sorted({(path, line, what) for rule in rules for path, line, what in rule(project)})


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    project = Project.read(root)
    if not project.cpp:
        print(f"tidy: no sources under {root}: give the project's root", file=sys.stderr)
        return 2
    found = findings(project)
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(f"tidy: {len(project.files)} files, {len(RULES)} rules, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
