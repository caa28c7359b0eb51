"""What the verbs of the command line print of a program: Report and Page, and the Source that they are run on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence, Union

from . import _core

if TYPE_CHECKING:
    from ._executable import Executable


class Report:
    """What a verb of the command line printed; in a notebook it shows itself, as a drawing where there is one."""

    def __init__(self, text: str, svg: Optional[str] = None):
        self.text = text
        self.svg = svg

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> Optional[str]:
        return self.svg

    def _repr_html_(self) -> Optional[str]:
        if self.svg is not None:
            return None
        import html

        # Some pages of notebooks have styles of their own for <pre>, but columns need a fixed-width font.
        return f'<pre style="font-family:ui-monospace,Menlo,Consolas,monospace">{html.escape(self.text)}</pre>'


class Page:
    """A page of `dtc report` or `dtc diff`, which shows itself in a notebook, in a frame of its own."""

    def __init__(self, html: str):
        self.html = html

    @property
    def data(self) -> dict[str, Any]:
        """The JSON document in the page; docs/report.md and docs/diff.md describe it."""
        import json

        begin = self.html.index(_DATA_BEGIN) + len(_DATA_BEGIN)
        return json.loads(self.html[begin : self.html.index("</script>", begin)])

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the page: one file that loads nothing."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"<dtc.Page of {len(self.html.encode()):,} bytes: save(path) writes it, data is what it shows>"

    def _repr_html_(self) -> str:
        import html

        # The page's styles and keys are its own. `srcdoc` is text of an attribute, and `sandbox` keeps its scripts from
        # the notebook, whose theme they cannot see: bright text around the frame is a dark theme.
        tell = (
            "const rgb = getComputedStyle(this).color.match(/[0-9.]+/g).slice(0, 3).map(Number);"
            "this.contentWindow.postMessage({theme: rgb[0] + rgb[1] + rgb[2] > 384 ? 'dark' : 'light'}, '*')"
        )
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-modals" title="dtc" onload="{tell}" '
            'style="width:100%;height:640px;border:1px solid #8888;border-radius:4px"></iframe>'
        )


_DATA_BEGIN = '<script id="data" type="application/json">'


class Source:
    """The text, or the file, of a program and the options that it is compiled with: what the verbs are run on."""

    def __init__(
        self,
        name: str,
        text: Union[None, str, bytes],
        flags: Iterable[str],
        run_flags: Iterable[str],
        settings: Sequence[tuple[str, str]] = (),
    ):
        self.settings = list(settings)
        self.weights: Optional[str] = None  # the file of the program's own, which are read with it
        self.name = name
        self.text = text
        self.flags = list(flags)
        self.run_flags = list(run_flags)

    def _command(self, *words: str) -> str:
        return _core.command(list(words), self.text or "")

    def _file(self) -> str:
        return self.name if self.text is None else "-"

    def signature(self) -> "_core.Signature":
        """The arguments and results, whose sizes may be symbolic."""
        return _core.Signature(self.name, self.text, self.settings)

    def report(self, verb: str, *words: str, svg: bool = False) -> Report:
        text = self._command(verb, self._file(), *words, *self.flags)
        drawing = self._command(verb, self._file(), *words, *self.flags, "--format", "svg") if svg else None
        return Report(text, drawing)

    def target(self) -> str:
        """Of the backend that it is compiled for."""
        return "sm_90a" if {"cuda", "cuda-emu"} & set(self.run_flags) else "cpu"

    def page(self, target: str, *words: str) -> Page:
        words += ("--target", target or self.target())
        return Page(self._command("report", self._file(), *words, *self.flags, "-o", "-"))

    def run_report(self, executable: Executable, args: Sequence[Any], *words: str) -> Report:
        import tempfile

        inputs: list[str] = [*executable._size_flags(), "--input", "*=randn(1)"]
        with tempfile.TemporaryDirectory(prefix="dtc-") as folder:
            if args or (executable._filled is not None and not executable._open):
                import numpy

                path = os.path.join(folder, "arguments.npz")
                numpy.savez(path, **executable._converted(tuple(args)))
                inputs = ["--input", path]
                for file in executable._files:
                    inputs += ["--input", file] if file != self.weights else []
            # Results are printed unless they are written.
            unprinted = ["--output", os.path.join(folder, "results.npz")]
            return Report(self._command("run", self._file(), *inputs, *unprinted, *words, *self.flags, *self.run_flags))


def diff_page(a: Any, b: Any, flags: Sequence[str]) -> Page:
    import shlex
    import tempfile

    with tempfile.TemporaryDirectory(prefix="dtc-") as folder:
        words = []
        for side, program in (("a", a), ("b", b)):
            source = getattr(program, "_source", None)  # of an Executable
            own = [*source.flags, *program._size_flags()] if source else []
            text = source.text if source else program if isinstance(program, str) and "\n" in program else None
            file = source.name if source else os.fspath(program)
            if text is not None:
                file = os.path.join(folder, side + ".dt")
                with open(file, "wb") as out:
                    out.write(text.encode() if isinstance(text, str) else text)
            words += [file] if not own else [file, "--" + side, shlex.join(own)]
        page = _core.command(["diff", *words, *flags, "-o", "-"], "")
        return Page(page.replace(folder + os.sep, ""))  # texts are a.dt and b.dt
