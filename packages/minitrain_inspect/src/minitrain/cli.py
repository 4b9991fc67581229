"""The `minitrain` command: a thin caller of `run`, `dashboard`, `export`, `evaluation` and `prompt_worksheet`.

Exit status: 0 done or healthy, 1 findings (`diagnose`, `--stop-on`), 2 unusable input with nothing written, 3 stopped
by non-finite values, 130 and 143 after signals.
"""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
import numpy as np
import numpy.typing as npt
from autograd_core.files import write_atomic
from minimodel.transformer import MiniGPT, worksheet
from minimodel.transformer.worksheets import Language, hand_example
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .__about__ import __version__
from .bilingual import LANGUAGES, Text
from .checkpoint import step_of
from .config import RunConfig, load_config
from .dashboard import serve_live, write_comparison, write_dashboard
from .diagnosis import Finding, all_rules, diagnose, judges_overfitting, record_of
from .evaluation import written
from .export import write_csv, write_tensorboard
from .loop import Row
from .prompt_worksheet import prompt_worksheet
from .run import MOST_THREADS, Prepared, execute, load_gpt2_folder, load_run, prepare, recorded_threads
from .run_folder import check_free, check_out, dated_folder, require_writable
from .tokenizer import BOS_ID, Tokenizer

FINDINGS, UNUSABLE, NON_FINITE, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


def _settings() -> str:
    """Return every key with its default, a line each, in a block that click does not wrap."""
    lines = [
        f"  {section}.{key}={json.dumps(default)}"
        for section, keys in RunConfig().to_dict().items()
        for key, default in keys.items()
    ]
    head = "Settings and their defaults; the README of minitrain-inspect says what each means and allows:"
    return "\n".join(["\b", head, *lines])


_HEALTHY = Text("healthy: no finding", "sano: ningún hallazgo")
_UNJUDGED = Text(
    "no finding; too few validations to judge overfitting (train.val_every)",
    "ningún hallazgo; demasiado pocas validaciones para juzgar el sobreajuste (train.val_every)",
)


class _Terminated(BaseException):
    """SIGTERM, as an exception, as KeyboardInterrupt is SIGINT: files are closed and hooks removed on the way out."""


class _Command(click.Group):
    """A command that a signal ends with one line and the signal's own status, where click would say 1.

    NumPy's warnings are off: a number that is not finite is told as such, where it counts.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with np.errstate(all="ignore"):
                return super().invoke(ctx)
        except (KeyboardInterrupt, _Terminated) as signalled:
            click.echo("; ".join(["minitrain: interrupted", *signalled.args]), err=True)
            sys.exit(INTERRUPTED if isinstance(signalled, KeyboardInterrupt) else TERMINATED)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minitrain")
def main() -> None:
    """Train a small GPT, watch every layer of it, and look at what happened."""


@main.command("train", epilog=_settings())
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="TOML file of settings.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting of those below; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write; new or empty. [default: runs/DATE-TIME]")
@click.option("--from-gpt2", type=click.Path(path_type=Path), help="GPT-2 folder to start from; needs a text source.")
@click.option("--resume", "resumed", type=click.Path(path_type=Path), help="Run folder to continue.")
@click.option("--live", is_flag=True, help="Serve the dashboard to this machine's browser while the run trains.")
@click.option("--stop-on", "stop_on", multiple=True, metavar="CODE", help="End at this finding; repeatable.")
@click.option(
    "--threads", type=click.IntRange(1, MOST_THREADS), help="BLAS threads. [default: 1; with --resume, as before]"
)
def train_command(
    config_file: Path | None,
    sets: tuple[str, ...],
    out: Path | None,
    from_gpt2: Path | None,
    resumed: Path | None,
    live: bool,
    stop_on: tuple[str, ...],
    threads: int | None,
) -> None:
    """Train a model and leave a run folder with log, dashboard, results and weights."""
    with _refusals(), _sigterm_unwinds():
        if resumed is not None:
            if config_file is not None or sets or out is not None or from_gpt2 is not None:
                raise ValueError(
                    "--resume continues a run as it was configured; leave out --config, --set, --out and --from-gpt2."
                )
            if not (resumed / "config.toml").is_file():
                raise ValueError(
                    f"--resume: a run folder must hold config.toml; {str(resumed)!r} does not. Name a folder that "
                    "minitrain train wrote, or begin a run there with --out."
                )
            check_free(resumed)
            config = load_config(resumed / "config.toml", ())
            threads = threads or recorded_threads(resumed)
        else:
            config = load_config(config_file, sets, from_gpt2=None if from_gpt2 is None else str(from_gpt2))
            if out is not None:
                check_out(out)
        threads = threads or 1
        named = resumed or out
        with threadpool_limits(threads), dated_folder(Path("runs")) if named is None else nullcontext(named) as folder:
            prepared = prepare(config)
            with _progress(config) as (on_step, on_row), _live_page(folder) if live else nullcontext():
                try:
                    result = execute(
                        prepared,
                        folder,
                        threads=threads,
                        on_start=lambda done: _show_start(prepared, folder, done),
                        on_step=on_step,
                        on_row=on_row,
                        on_finding=_show_finding,
                        stop_on=stop_on,
                        resume=resumed is not None,
                    )
                except (KeyboardInterrupt, _Terminated) as signalled:
                    raise type(signalled)(*_leave_a_page(folder)) from None
    if result.reason:
        click.echo(f"minitrain: {result.reason}", err=True)
    click.echo(_summary(folder))
    if result.outcome != "finished":
        sys.exit(NON_FINITE if result.outcome == "non-finite" else FINDINGS)


@main.command("dashboard")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--language",
    type=click.Choice(["en", "es"]),
    default="en",
    show_default=True,
    help="Language shown first; the page has a switch.",
)
def dashboard_command(run: Path, language: str) -> None:
    """Write RUN/dashboard.html anew from the log and print where it is."""
    with _refusals():
        if not (run / "inspector.log.jsonl").is_file():
            raise ValueError(f"a run folder must hold inspector.log.jsonl; {str(run)!r} does not.")
        try:
            require_writable(run)
        except OSError as error:
            raise OSError(
                f"the run folder cannot be written: {error.strerror}: {str(run)!r}. Copy the run to where it can be."
            ) from error
        page = write_dashboard(run, language=language)
    click.echo(page.resolve().as_uri())


@main.command("compare")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, metavar="RUN RUN...")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("comparison.html"), show_default=True, help="File to write."
)
@click.option("--language", type=click.Choice(["en", "es"]), default="en", show_default=True)
def compare_command(runs: tuple[Path, ...], out: Path, language: str) -> None:
    """Lay two runs or more over each other in the seven panels, with what differs, and print where the page is."""
    with _refusals(), threadpool_limits(1):
        replaced = out.exists()
        page = write_comparison(runs, out, language=language)
    if replaced:
        click.echo(f"minitrain: {out} was there and was replaced; --out FILE writes another.", err=True)
    click.echo(page.resolve().as_uri())


@main.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="File to write: a line a row.")
@click.option(
    "--tensorboard",
    type=click.Path(path_type=Path),
    help="Folder to write, new or empty; needs the extra [tensorboard].",
)
def export_command(run: Path, csv_file: Path | None, tensorboard: Path | None) -> None:
    """Write the log of RUN for other tools and print where it is."""
    with _refusals():
        if csv_file is None and tensorboard is None:
            raise ValueError("export needs a format: give --csv FILE, --tensorboard DIR, or both.")
        if tensorboard is not None:
            click.echo(write_tensorboard(run, tensorboard))
        if csv_file is not None:
            click.echo(write_csv(run, csv_file))


@main.command("diagnose")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, documented in the BLUEPRINT.")
@click.option("--language", type=click.Choice(["en", "es"]), default="en", show_default=True)
def diagnose_command(run: Path, as_json: bool, language: str) -> None:
    """Say what is wrong with RUN, causes first; exit status 0 if nothing is, 1 if something."""
    with _refusals(), threadpool_limits(1):
        record = record_of(run)
        found = diagnose(record, all_rules())
        if as_json:
            report = {"healthy": not found, "findings": [finding.to_json(language) for finding in found]}
            click.echo(json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False))
        else:
            nothing = _HEALTHY if judges_overfitting(record) else _UNJUDGED
            click.echo(
                "\n\n".join(finding.describe(language) for finding in found) or nothing[LANGUAGES.index(language)]
            )
    if found:
        sys.exit(FINDINGS)


@main.command("sample")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--gpt2", type=click.Path(path_type=Path), help="GPT-2 folder to sample from in the place of a run.")
@click.option("--prompt", required=True, help='Text to continue; of a verb run as "es:yo trabajo / en:".')
@click.option("--tokens", type=click.IntRange(min=0), help="New tokens at most. [default: to the context's end]")
@click.option("--temperature", type=click.FloatRange(min=0.0), default=0.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", type=click.IntRange(min=1), help="Only the K most likely tokens.")
@click.option("--top-p", type=click.FloatRange(min=0.0, max=1.0, min_open=True), help="Only the likeliest mass P.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def sample_command(
    run: Path | None,
    gpt2: Path | None,
    prompt: str,
    tokens: int | None,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
) -> None:
    """Continue PROMPT with the model of RUN, or of a GPT-2 folder, and print prompt and continuation."""
    with _refusals(), threadpool_limits(1):
        if (run is None) == (gpt2 is None):
            raise ValueError("sample needs a model: name a RUN folder or give --gpt2 FOLDER, one of the two.")
        model, tokenizer, ids = _prompted(run, gpt2, prompt)
        if not prompt and len(ids):
            raise ValueError(
                '--prompt: a verb model was trained on what follows the last tag of a line as "es:yo trabajo / en:"; '
                "got no text. Give such a line."
            )
        context_len = model.config.context_len
        room = context_len - len(ids) if tokens is None else tokens
        if len(ids) == 0 or room < 0:
            raise ValueError(
                f"--prompt: must have at least one and, without --tokens, at most {context_len} tokens; got {len(ids)}."
            )
        new = model.generate(
            ids, room, temperature=temperature, top_k=top_k, top_p=top_p, rng=np.random.default_rng(seed)
        )[len(ids) :]
        click.echo(prompt + written(tokenizer, new))


@main.command("worksheet")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--gpt2", type=click.Path(path_type=Path), help="GPT-2 folder in the place of a run.")
@click.option("--prompt", help="Text that the model reads; at most 24 tokens fit.")
@click.option("--block", type=int, help="Which block of the model, counted from 0. [default: 0]")
@click.option("--language", type=click.Choice(["en", "es"]), default="en", show_default=True)
@click.option("--html", "page", type=click.Path(path_type=Path), help="File to write a page into. [default: Markdown]")
def worksheet_command(
    run: Path | None, gpt2: Path | None, prompt: str | None, block: int | None, language: Language, page: Path | None
) -> None:
    """Work one block out as on paper: every number of a forward pass.

    With RUN or --gpt2, a block of that model on PROMPT; else a small example, the one that is worked out by hand.
    Markdown goes to standard output; --html writes a page and prints where it is.
    """
    with _refusals(), threadpool_limits(1):
        if run is not None and gpt2 is not None:
            raise ValueError("worksheet takes one model: name a RUN folder or give --gpt2 FOLDER, not both.")
        if run is None and gpt2 is None:
            if prompt is not None or block is not None:
                raise ValueError("--prompt and --block belong to a model: name a RUN folder or give --gpt2 FOLDER.")
            sheet = worksheet(*hand_example(), language=language)
        else:
            if prompt is None:
                raise ValueError("--prompt: a model's worksheet needs a text to read; got none.")
            sheet = prompt_worksheet(*_prompted(run, gpt2, prompt), block=block or 0, language=language)
        if page is None:
            click.echo(sheet.markdown(), nl=False)
        else:
            write_atomic(page, sheet.html())
            click.echo(page.resolve().as_uri())


def _prompted(
    run: Path | None, gpt2: Path | None, prompt: str
) -> tuple[MiniGPT, Tokenizer, npt.NDArray[np.integer[Any]]]:
    """Model and tokeniser of one of the two folders, and the prompt's ids, shape (T,), as that model reads them."""
    start: list[int] = []
    if run is not None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)  # weights that are not finite: loaded, and said so
            config, model, tokenizer = load_run(run)
        for warning in caught:
            click.echo(f"minitrain: {warning.message}", err=True)
        # Verb lines begin with <bos>; a text is one long stream and has none.
        start = [BOS_ID] if config.data.source == "verbs" else []
    else:
        assert gpt2 is not None
        model, tokenizer = load_gpt2_folder(gpt2)
    return model, tokenizer, np.concatenate([np.array(start, dtype=np.int64), tokenizer.encode(prompt)])


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the input is to blame for into one line on standard error and exit status 2."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader, such as `head`, has what it wanted: click ends silently
    except MemoryError:
        click.echo(
            "minitrain: there is not enough memory for these sizes; make model.* or the batch smaller.", err=True
        )
        sys.exit(UNUSABLE)
    except (ValueError, OSError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            said = f"{error.filename!r} cannot be read or written: {error.strerror}."
        line = " ".join(said.split())
        click.echo(f"minitrain: {line}", err=True)
        sys.exit(UNUSABLE)


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """Let SIGTERM unwind what is inside, as SIGINT does."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave_a_page(folder: Path) -> tuple[str, ...]:
    """Draw the log of a run that a signal ended; return how to go on, if there is something to go on with."""
    if not (folder / "inspector.log.jsonl").is_file():
        return ()
    write_dashboard(folder)
    saved = step_of(folder / "checkpoint" / "state.safetensors")
    where = f"continue from step {saved}, the last checkpoint,"
    if saved is None:
        where = "there is no checkpoint yet; begin again"
    return (f"{where} with: minitrain train --resume {folder} (with hatch: hatch run minitrain ...)",)


def _show_start(prepared: Prepared, folder: Path, done: int) -> None:
    """Say what is trained, how long and into which folder, unless nothing is left to do."""
    steps, source = prepared.config.train.steps, prepared.config.data.source
    if done < steps:
        size = sum(parameter.size for parameter in prepared.model.parameters())
        learned = "verb forms" if source == "verbs" else source
        # Above the bar, if there is one.
        tqdm.write(
            f"training a GPT of {size:,} parameters on {learned}, steps {done + 1} to {steps}, into {folder}",
            file=sys.stderr,
        )


@contextmanager
def _progress(config: RunConfig) -> Iterator[tuple[Callable[[int, float], None] | None, Callable[[Row], None] | None]]:
    """Show progress: a bar on a terminal, a line a validation otherwise."""
    steps = config.train.steps
    if sys.stderr.isatty():
        # A delay, so that nothing is drawn before the first step: a refusal is one line.
        with tqdm(total=steps, unit="step", dynamic_ncols=True, delay=0.1) as bar:
            validation = ""

            def on_step(step: int, loss: float) -> None:
                bar.update(step - bar.n)
                bar.set_postfix_str(f"loss {loss:.3f}{validation}", refresh=False)

            def on_validated(row: Row) -> None:
                nonlocal validation
                if row["val_loss"] is not None:
                    validation = f", validation {row['val_loss']:.3f}"

            yield on_step, on_validated
        return

    def on_row(row: Row) -> None:
        if row["val_loss"] is not None:
            click.echo(
                f"step {row['step']}/{steps}  train {row['train_loss']:.3f}  validation {row['val_loss']:.3f}  "
                f"n-gram {row['ngram_loss']:.3f} nats  {row['elapsed_seconds']:.0f} s",
                err=True,
            )

    yield None, on_row


@contextmanager
def _live_page(folder: Path) -> Iterator[None]:
    """Serve the dashboard meanwhile, and say where."""
    with serve_live(folder) as address:
        tqdm.write(f"live: {address}", file=sys.stderr)
        yield


def _show_finding(finding: Finding) -> None:
    """Print a finding above the progress bar, if there is one."""
    tqdm.write(finding.describe(), file=sys.stderr)


def _summary(folder: Path) -> str:
    """What to look at, and the figures of `results.json` worth a line."""
    results: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    lines = []
    if results["val_loss"] is not None:
        lines.append(f"validation {results['val_loss']:.3f} nats, n-gram {results['ngram_loss']:.3f}")
    for name, share in results.get("held_out_exact", {}).items():
        lines.append(f"held-out {name} forms completed exactly: {share['exact']} of {share['of']}")
    lines.append(f"dashboard: {(folder / 'dashboard.html').resolve().as_uri()}")
    return "\n".join(lines)
