"""`parse` finds the text of a function wherever Python keeps one, and says so where it keeps none."""

from __future__ import annotations

import ast
import asyncio
import doctest
import functools
import importlib.util
import linecache
import os
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaio.dsl.compiler.parse import parse
from kaio.errors import KernelSyntaxError
from kaio.source import Source


def decorate(*_: object) -> Callable[[Any], Any]:
    return lambda function: function


@decorate(1)
@decorate(
    2,
    3,
)
def decorated(
    a,
    b=1,
):
    """Text."""
    return a + b


class Space:
    @decorate()
    def inside(x):
        return x

    class Inner:
        def deep(x): return -x  # fmt: skip


def continued(x):
    total = x + 1
    total += """
no indentation here
"""
    # nor here
    return total


def shape(source: Source) -> str:
    return ast.unparse(source.node)


def message(function: Any) -> str:
    with pytest.raises(KernelSyntaxError) as caught:
        parse(function)
    return str(caught.value)


def load(path: Path, name: str = "sample") -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(text: str, name: str) -> dict[str, Any]:
    """Run text as a program does that makes code and puts its text into linecache."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


# --- where the text is ------------------------------------------------------------------------------------------------


def test_a_function_with_decorators_over_several_lines() -> None:
    source = parse(decorated)
    assert source.name == "decorated"
    assert source.lines[0] == "@decorate(1)"
    assert source.lines[-1] == "    return a + b"
    assert source.first_line == decorated.__code__.co_firstlineno
    assert isinstance(source.node, ast.FunctionDef)
    assert source.line(source.node.lineno) == "def decorated("
    assert source.line(source.node.body[-1].lineno) == "    return a + b"


def test_functions_in_classes() -> None:
    assert parse(Space.inside).qualified_name == "Space.inside"
    assert shape(parse(Space.Inner.deep)) == "def deep(x):\n    return -x"


def test_continued_lines_and_text_without_indentation() -> None:
    source = parse(continued)
    assert source.lines[-1] == "    return total"
    assert "no indentation here\n" in source.text


def test_a_function_that_was_renamed_keeps_its_text_and_takes_the_name() -> None:
    def template(x):
        return x

    template.__name__ = "special"
    assert parse(template).name == "special"
    assert shape(parse(template)).startswith("def template(x)")


def test_a_path_inside_the_working_directory_is_shown_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    path = tmp_path / "package" / "kernels.py"
    path.write_text("def f(x):\n    return x\n")
    function = load(path).f
    monkeypatch.chdir(tmp_path)
    assert parse(function).file == os.path.join("package", "kernels.py")  # noqa: PTH118
    monkeypatch.chdir(tmp_path / "package")
    assert parse(function).file == "kernels.py"


def test_a_path_outside_the_working_directory_is_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernels.py"
    path.write_text("def f(x):\n    return x\n")
    function = load(path).f
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert parse(function).file == str(path)


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("# coding: latin-1\ndef f(x):\n    y = 'é'; return x + 1\n".encode("latin-1"))
    source = parse(load(path).f)
    [node] = [node for node in ast.walk(source.node) if isinstance(node, ast.BinOp)]
    place = source.place(node)
    assert place.text[place.column : place.end_column] == "x + 1"


def test_a_module_in_a_zip_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "kernels.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_kernels.py", "def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(str(archive))
    module = __import__("zipped_kernels")
    monkeypatch.delitem(sys.modules, "zipped_kernels")
    assert shape(parse(module.f)) == "def f(x):\n    return x + 1"


def test_text_that_a_program_put_into_linecache() -> None:
    space = make("if True:\n    def f(x):\n        return x\n", "<made 1>")
    source = parse(space["f"])
    assert (source.file, source.first_line) == ("<made 1>", 2)
    assert source.text == "def f(x):\n    return x\n"


def test_a_doctest() -> None:
    found: list[Source] = []
    text = ">>> def f(x):\n...     return x + 1\n>>> keep(f)\n"
    test = doctest.DocTestParser().get_doctest(text, {"keep": lambda f: found.append(parse(f))}, "sample", None, 0)
    result = doctest.DocTestRunner(verbose=False).run(test)
    assert result.failed == 0
    assert shape(found[0]) == "def f(x):\n    return x + 1"


def test_a_notebook_cell_is_shown_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/tmp/ipykernel_1/2.py"
    space = make("def f(x):\n    return x\n", name)
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={name: 3}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert parse(space["f"]).file == "Cell In[3]"


# --- lambdas ----------------------------------------------------------------------------------------------------------

first, second = (lambda v: v * 2), (lambda v: v * 3 if v else 1)
nested = lambda v: lambda w: w + 1  # noqa: E731
constants = [lambda: 1, lambda: 2, lambda: 1]


def test_each_of_two_lambdas_in_a_line_is_told_apart() -> None:
    assert shape(parse(first)) == "lambda v: v * 2"
    assert shape(parse(second)) == "lambda v: v * 3 if v else 1"


def test_a_lambda_inside_a_lambda() -> None:
    assert shape(parse(nested)) == "lambda v: lambda w: w + 1"
    assert shape(parse(nested(1))) == "lambda w: w + 1"


def test_lambdas_that_give_constants() -> None:
    assert [shape(parse(function)) for function in constants] == ["lambda: 1", "lambda: 2", "lambda: 1"]


def test_a_lambda_over_several_lines_inside_a_call() -> None:
    pair = (
        lambda v: (
            v + 1
        ),
        lambda v: v,
    )  # fmt: skip
    assert shape(parse(pair[0])) == "lambda v: v + 1"
    assert [line.strip() for line in parse(pair[0]).lines] == ["lambda v: (", "v + 1", "),"]


def without_columns(function: Any) -> types.FunctionType:
    code = function.__code__.replace(co_linetable=b"")
    return types.FunctionType(code, function.__globals__, "f", None, function.__closure__)


def test_without_columns_lambdas_are_told_apart_by_what_they_do() -> None:
    assert shape(parse(without_columns(first))) == "lambda v: v * 2"
    assert shape(parse(without_columns(second))) == "lambda v: v * 3 if v else 1"


def test_without_columns_lambdas_that_cannot_be_told_apart_are_not_guessed() -> None:
    space = make("def pair(k): return (lambda v: v * k, lambda v: v + k)\n", "<made 2>")
    assert message(without_columns(space["pair"](3)[0])) == (
        "which lambda is meant cannot be told: there are several in line 1 of `<made 2>`, and Python was told to keep "
        "no columns\n  help: put each on a line of its own, or run Python without `-X no_debug_ranges`"
    )


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filename", ["<stdin>", "<string>"])
def test_no_text_at_a_prompt(filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(linecache.cache, filename, raising=False)
    space: dict[str, Any] = {}
    exec(compile("def f(x): return x", filename, "exec"), space)
    assert message(space["f"]) == (
        f"the source of `f` cannot be read: Python keeps no source here (`{filename}`)\n"
        "  help: put the kernel in a file, or use IPython or Jupyter"
    )


def test_no_text_of_code_that_a_program_made() -> None:
    space: dict[str, Any] = {}
    exec(compile("def f(x): return x", "<made up>", "exec"), space)
    assert message(space["f"]) == (
        "the source of `f` cannot be read: there is no text for `<made up>`\n"
        "  help: put the kernel in a file; a program that makes code puts its text into `linecache.cache` before"
    )


def test_a_method() -> None:
    assert message(Space().inside) == (
        "`Space.inside` is a method, and a kernel has no `self`\n"
        "  help: make it a function that takes what it needs as arguments"
    )


def test_a_staticmethod() -> None:
    assert message(staticmethod(decorated)) == (
        "`decorated` is a staticmethod, not a function\n  help: put kaio's decorator under it, directly above the `def`"
    )


def test_a_function_behind_another_decorator() -> None:
    @functools.wraps(decorated)
    def wrapper(*args: Any) -> Any:
        return decorated(*args)

    assert message(wrapper) == (
        "`decorated` was wrapped by another decorator, which hides the function itself\n"
        "  help: put kaio's decorator directly above the `def`, under the other one"
    )


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (print, "`print` is a built-in function, which has no Python source"),
        (Space, "`Space` is a class, not a function"),
        (3, "`3` is a value of type int, not a function"),
    ],
)
def test_what_is_no_function(what: Any, expected: str) -> None:
    assert message(what) == f"{expected}\n  help: give a function made by `def`"


def test_an_async_function() -> None:
    async def wait(x):
        await asyncio.sleep(x)

    line = wait.__code__.co_firstlineno
    assert message(wait).splitlines()[0] == "`wait` is an `async def`: code of a kernel cannot wait for anything"
    assert f":{line}:5, in wait" in message(wait)


# --- a file that has changed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "def g(x):\n    return x\n",
        "def f(y):\n    return y\n",
        "def f(x): pass\n",
        "import this_is_not_run\ndef f(x):\n    return x\n",
        "def f(x:\n",
        "x = '''\n",
        "\n",
        "def f(x):\n    return x + 2\n",
    ],
)
def test_a_file_that_changed_since_import_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x + 1\n")
    function = load(path).f
    assert shape(parse(function)) == "def f(x):\n    return x + 1"
    path.write_text(text)
    os.utime(path, ns=(2**62, 2**62))
    assert message(function) == (
        f"the source of `f` is no longer what runs: line 1 of `{path}` has changed since the function was made\n"
        "  help: import the module again (`importlib.reload`), or restart Python"
    )


def test_a_lambda_that_changed_since_import_is_found(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    path.write_text("f = lambda x: x\n")
    function = load(path).f
    path.write_text("f = lambda y: y\n")
    os.utime(path, ns=(2**62, 2**62))
    assert "has changed since the function was made" in message(function)


def test_a_file_that_was_only_touched_is_not_a_change(tmp_path: Path) -> None:
    path = tmp_path / "same.py"
    path.write_text("def outer(k):\n    def f(x):\n        return x + k\n    return f\n")
    function = load(path).outer(3)
    os.utime(path, ns=(2**62, 2**62))
    assert shape(parse(function)) == "def f(x):\n    return x + k"


def test_a_change_elsewhere_in_the_file_is_no_change_of_the_function(tmp_path: Path) -> None:
    path = tmp_path / "same.py"
    path.write_text("def f(x):\n    return x\n\ny = 1\n")
    function = load(path).f
    path.write_text("def f(x):\n    return x\n\ny = (\n")
    os.utime(path, ns=(2**62, 2**62))
    assert shape(parse(function)) == "def f(x):\n    return x"


KERNEL_FILE = """import kaio
from kaio import InOut, f32

@kaio.kernel
def k(y: InOut[f32]):
    i = kaio.grid(1)
    if i < y.size:
        y[i] = y[i] + 1.0
"""


def test_a_module_that_is_written_edited_and_reloaded_means_its_new_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "kernels_written_late.py"
    path.write_text(KERNEL_FILE, encoding="utf-8")
    module = importlib.import_module("kernels_written_late")
    assert "0f3F800000" in module.k.ptx("sm_90")  # 1.0
    path.write_text(KERNEL_FILE.replace("1.0", "22.0"), encoding="utf-8")
    importlib.invalidate_caches()
    importlib.reload(module)
    assert "0f41B00000" in module.k.ptx("sm_90")  # 22.0
