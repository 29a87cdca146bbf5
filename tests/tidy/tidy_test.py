"""Every rule of tidy.py finds its bad snippet, at its line, and leaves a good one alone."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import house
import tidy

HEADER = "#pragma once\n"
LONG_BODY = "void f(int a) {\n" + "  g(a);\n" * house.MAX_FUNCTION_LINES + "}\n"
LONG_METHOD = ("namespace a {\nclass X : public Y<decltype(y())> {\n public:\n  X(int a) : a_{a}, b_(a) {\n"
               + "    g();\n" * house.MAX_FUNCTION_LINES + "  }\n};\n}\n")
LONG_TABLE = "constexpr Row kRows[] = {\n" + '    {"a", make(), 1},\n' * 200 + "};\n"
LONG_CLASS = "template <class T>\nstruct X {\n" + "  void f(int a) { g(a); }\n" * 200 + "};\n"
ROOT = "/" + "root/"

# rule -> (files in which it must find something, the line of the finding), each a snippet on its own
BAD = {
    tidy.file_length: [({"a/a.cpp": "int a;\n" * 501}, 1),
                       ({"scripts/x": "#!/usr/bin/env bash\n" + "true\n" * 501}, 1)],
    tidy.line_length: [({"a/a.cpp": "int a;\n//" + "x" * 120}, 2), ({"a/CMakeLists.txt": "x" * 121}, 1)],
    tidy.function_length: [
        ({"a/a.cpp": "int x;\n" + LONG_BODY}, 2),
        ({"a/a.cpp": LONG_METHOD}, 4),
        ({"a/a.cpp": "TEST(A, B) {\n  const char* s = \"}\"; /* } */ char c = '}';\n" + "  g();\n" * 70 + "}\n"}, 1),
        ({"a/a.py": "def f():\n" + "    g()\n" * 70}, 1),
    ],
    tidy.confined_headers: [
        ({"cli/a.cpp": "\n#include <boost/asio/ip/tcp.hpp>\n"}, 2),
        ({"client/session/a.cpp": "#include <openssl/ssl.h>\n"}, 1),
        ({"coordinator/a.cpp": "#include <sqlite3.h>\n"}, 1),
        ({"kernels/cpu/a.cpp": "#include <cuda_runtime.h>\n"}, 1),
        ({"client/a.cpp": '#include "protocol/wire_generated.h"\n'}, 1),
        ({"client/a.cpp": "#include <flatbuffers/flatbuffers.h>\n"}, 1),
        ({"common/text.cpp": "#include <spdlog/spdlog.h>\n"}, 1),
    ],
    tidy.one_toml_folder: [({p: "#include <toml++/toml.h>\n" for p in ("a/a.cpp", "a/b.cpp", "b/c.cpp")}, 1)],
    tidy.layers: [
        ({"common/a.cpp": '\n#include "kernels/k.hpp"\n', "kernels/k.hpp": HEADER}, 2),
        ({"client/a.cpp": '#include "coordinator/k.hpp"\n', "coordinator/k.hpp": HEADER}, 1),
        ({"coordinator/round/a.cpp": '#include "coordinator/net/k.hpp"\n', "coordinator/net/k.hpp": HEADER}, 1),
        ({"client/session/a.cpp": '#include "protocol/link/k.hpp"\n', "protocol/link/k.hpp": HEADER}, 1),
        ({"common/a.cpp": '#include "a.hpp"\n', "common/a.hpp": HEADER}, 1),
        ({"common/a.cpp": '#include "../common/a.hpp"\n', "common/a.hpp": HEADER}, 1),
    ],
    tidy.pure_state_machines: [
        ({"coordinator/round/a.cpp": "\n#include <thread>\n"}, 2),
        ({"client/session/a.cpp": "auto t = std::chrono::steady_clock::now();\n"}, 1),
        ({"client/session/a.cpp": "auto t = system_clock().now();\n"}, 1),
    ],
    tidy.bare_detached: [({"client/net/a.cpp": "int x;\nco_spawn(e, f(), asio::detached);\n"}, 2)],
    tidy.co_await_temporaries: [
        ({"client/net/a.cpp": "int x;\nco_await run([&x] { return x; });\n"}, 2),
        ({"client/net/a.cpp": "co_await run(\n    [=](int a) { return x; });\n"}, 1),
        ({"client/net/a.cpp": "co_await run(Options{.a = 1});\n"}, 1),
        ({"client/net/a.cpp": "co_await run({1, 2});\n"}, 1),
        ({"client/net/a.cpp": "co_await Sleep{1};\n"}, 1),
        ({"client/net/a.cpp": "auto r = co_await s.read(buf[0], [] { return 1; }, std::string{x});\n"}, 1),
    ],
    tidy.sleeping_tests: [
        ({"tests/a/a.cpp": "\nstd::this_thread::sleep_for(1s);\n"}, 2),
        ({"tests/a/a.cpp": "::sleep(1);\n"}, 1),
        ({"tests/a/a.py": "import time\ntime.sleep(1)\n"}, 2),
        ({"tests/a/a.sh": "sleep 1\n"}, 1),
    ],
    tidy.unfinished: [
        ({"a/a.cpp": "int a;  // " + "TODO: more\n"}, 1),
        ({"a/a.cpp": "/* one\n   " + "FIXME two */\n"}, 2),
        ({"a/CMakeLists.txt": "# " + "TODO\n"}, 1),
        ({"a/a.py": "x = 1  # " + "TODO\n"}, 1),
        ({"a/a.cpp": "// run(a, b);\n"}, 1),
        ({"a/a.cpp": "// if (a) {\n"}, 1),
        ({"a/a.cpp": "// const auto x = f(1);\n"}, 1),
        ({"a/a.cpp": "// return x;\n"}, 1),
    ],
    tidy.disabled_tests: [
        ({"tests/a/a.cpp": "\nTEST(A, DISABLED_B) {}\n"}, 2),
        ({"tests/a/a.cpp": "TEST(A, B) { GTEST_SKIP(); }\n"}, 1),
    ],
    tidy.header_habits: [
        ({"a/a.hpp": "int a;\n"}, 1),
        ({"a/a.hpp": HEADER + "using namespace std;\n"}, 2),
        ({"a/a.hpp": HEADER + "void f(bool a, bool b);\n"}, 2),
        ({"a/a.hpp": HEADER + "void f(int x,\n       bool a = true,\n       const bool b = false);\n"}, 3),
    ],
    tidy.one_type_a_name: [
        ({"a/a.hpp": "namespace g {\nclass X {};\n}\n",
          "b/b.cpp": "namespace g {\n\nclass X final : Y<int> {\n};\n}\n"}, 3),
        ({"a/a.cpp": "namespace g {\nstruct X { int a; };\n}\n",
          "b/b.cpp": "namespace g {\nenum class X : int { a };\n}\n"}, 2),
        ({"a/a.cpp": "namespace g::h {\nstruct X {};\n}\n",
          "b/b.cpp": "namespace g {\nnamespace {\nstruct X {};\n}\n"
                     "namespace h {\ntemplate <class T>\nstruct X {};\n}\n}\n"}, 7),
        ({"a/a.cpp": "struct X {};\n", "b/b.cpp": "void f() {\n}\nstruct X {\n};\n"}, 3),
    ],
    tidy.backend_conditionals: [
        ({"kernels/a.cpp": "\n#ifdef CUDA\n#endif\n"}, 2),
        ({"kernels/a.cpp": "#if defined(GLEANER_CUDA)\n#endif\n"}, 1),
    ],
    tidy.common_stays_small: [({f"common/h{n}.hpp": HEADER for n in range(house.MAX_COMMON_HEADERS + 1)}, 1)],
    tidy.sources_are_built: [
        ({"a/CMakeLists.txt": "x(SOURCES ab.cpp) # b.cpp", "a/b.cpp": ""}, 1),
        ({"a/CMakeLists.txt": "x(SOURCES b.cpp)", "a/c/b.cpp": ""}, 1),
        ({"a/CMakeLists.txt": "x(SOURCES b.cpp)", "a/b.cpp": "", "a/b.hpp": HEADER}, 1),
        ({"a/CMakeLists.txt": "", "a/b.hpp": HEADER, "c/d.hpp": '#include "a/b.hpp"\n',
          "c/CMakeLists.txt": "d.hpp"}, 1),
    ],
    tidy.machine_paths: [({"docs/a.md": "\nsee " + ROOT + "x\n"}, 2), ({"a/a.cpp": f'auto x = "{ROOT}";\n'}, 1)],
    tidy.documents_tell_the_truth: [
        ({"ARCHITECTURE.md": "`a/` is all\n", "a/x.cpp": "", "b/x.cpp": ""}, 1),
        ({"README.md": "x\nrun `a/gone.cpp`\n", "a/x.cpp": ""}, 2),
        ({"README.md": "[more](docs/gone.md)\n", "a/x.cpp": ""}, 1),
        ({"README.md": "    scripts/gone --x\n", "scripts/test": ""}, 1),
        ({"README.md": "see GONE.md\n"}, 1),
    ],
}

# What the rules above must leave alone, all rules at once.
GOOD = {
    "CMakeLists.txt": "add_subdirectory(a)\n",
    "README.md": "Run `scripts/test`; see ARCHITECTURE.md, https://a.org/docs/gone.md and `build/release/bin/x`.\n"
                 "Its answer is `application/json`; `run.toml` is yours, `/var/lib/x` is the state; 1/2 and/or.\n",
    "ARCHITECTURE.md": "`a/` (parts `cpu/`), `tests/`, `scripts/`, `common/`, `protocol/`, client/, kernels/,\n"
                       "scheduling/ and coordinator/\n",
    "scripts/test": "#!/usr/bin/env bash\n# a line\ntrue\n",
    "a/CMakeLists.txt": "x(SOURCES a.cpp cpu/b.cpp HEADERS a.hpp)\n",
    "a/a.hpp": HEADER + "struct Y {\n  bool a, b;\n  void f(bool a, int b, bool c);\n};\n",
    "a/a.cpp": LONG_TABLE + LONG_CLASS + '#include "a/a.hpp"\n'
               "// The sum is kept; whoever asks gets it again.\n// frame = length body;\n"
               "constexpr int kMany = 1'000'000;\nconst char* s = R\"(detached // TODO\n)\";\n"
               '#define BIG(x) { \\\n  x\nusing namespace std;\n',
    # One name, yet no two types: declared, nested, local, anonymous, in another namespace, specialised.
    "a/cpu/c.hpp": HEADER + "namespace g {\nclass One;\nclass One {\n  struct Part {};\n};\nstruct Two {\n"
                            "  struct Part {};\n};\n}\nnamespace g::h {\nstruct One {};\n}\n",
    "a/cpu/d.hpp": HEADER + "namespace {\nstruct One {};\n}\nnamespace g {\nclass One;\nnamespace {\nstruct One {};\n"
                            "}\nvoid f(struct One x) {\n  struct Two {};\n}\ntemplate <class T>\nstruct Hash {};\n"
                            "template <>\nstruct Hash<One> {};\ntemplate <>\nstruct Hash<Two> {};\n"
                            "One make() { return {}; }\n}\n",
    "a/cpu/b.cpp": "#include \"a/cpu/c.hpp\"\n#include \"a/cpu/d.hpp\"\nauto a = \"co_await f({1})\";\nvoid f() {}\n",
    "common/CMakeLists.txt": "x(log.cpp)\n",
    "common/log.cpp": "#include <spdlog/spdlog.h>\n",
    "protocol/CMakeLists.txt": "x(link/a.cpp m.fbs)\n",
    "protocol/m.fbs": "",
    "protocol/link/a.cpp": "#include <boost/asio.hpp>\n#include <openssl/ssl.h>\nTask f() {\n"
                           "  if (auto r = co_await g(buffer[0], std::move(x)); r) {\n    h([&r] { return r; });\n  }\n"
                           "  for (;;) co_await s.wait([] { return true; }, asio::use_awaitable);\n"
                           "  while (co_await next()) {\n    X x{1};\n  }\n  co_return X{co_await g()};\n}\n",
    "client/CMakeLists.txt": "x(a.cpp)\n",
    "client/a.cpp": '#include "protocol/x.hpp"\n#include <thread>\n#include "client/b.hpp"\n',
    "kernels/CMakeLists.txt": "x(cuda/a.cu)\n",
    "kernels/cuda/a.cu": "#include <cuda_runtime.h>\n#ifdef __CUDACC__\n#endif\n",
    "scheduling/CMakeLists.txt": "x(x.hpp)\n",
    "scheduling/x.hpp": HEADER,
    "coordinator/CMakeLists.txt": "x(round/a.cpp)\n",
    "coordinator/round/a.cpp": '#include "scheduling/x.hpp"\n#include <chrono>\nvoid f(Instant now) { now_ = now; }\n',
    "tests/CMakeLists.txt": "x(a_test.cpp)\n",
    "tests/helper.hpp": HEADER,
    "tests/a_test.cpp": "#include \"helper.hpp\"\n#include <sqlite3.h>\nTEST(A, B) { GTEST_SKIP() << \"no GPU\"; }\n"
                        "// never sleep(1) here\n",
}


class EveryRule(unittest.TestCase):
    def test_has_a_bad_snippet(self):
        self.assertEqual([], [rule.__name__ for rule in tidy.RULES if rule not in BAD])

    def test_finds_it_at_its_line(self):
        for rule, snippets in BAD.items():
            for files, line in snippets:
                with self.subTest(rule=rule.__name__, files=str(files)[:200]):
                    found = tidy.findings(tidy.Project(files), [rule])
                    self.assertEqual([line], [found_line for _, found_line, _ in found], found)

    def test_leaves_good_code_alone(self):
        self.assertEqual([], tidy.findings(tidy.Project(GOOD)))


class TheProgram(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                target = Path(root, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            command = [sys.executable, "-B", str(Path(__file__).with_name("tidy.py")), root]
            return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_says_where_and_fails(self):
        result = self.run_on({**GOOD, "a/a.hpp": "int a;\n"})
        self.assertEqual(1, result.returncode)
        self.assertIn("a/a.hpp:1: no #pragma once", result.stdout)

    def test_is_content_with_good_code(self):
        result = self.run_on(GOOD)
        self.assertEqual((0, ""), (result.returncode, result.stderr), result.stdout)

    def test_an_empty_project_is_a_mistake(self):
        self.assertEqual(2, self.run_on({"a.md": ""}).returncode)


if __name__ == "__main__":
    unittest.main()
