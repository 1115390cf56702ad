"""`streambits online`: every row gets its code before the next is read; it resumes."""

from streambits.cli import options
from streambits.cli.job import Told, run
from streambits.jobs.job import JobPlan, Pace
from streambits.jobs.open import ReadOptions, open_any
from streambits.jobs.work import Online
from streambits.methods.settings import Settings


def online(
    sources: options.Sources,
    *,
    bits: options.Bits = 64,
    out: options.Out,
    to: options.To = None,
    method: options.MethodName = options.Method.ssbc,
    n_landmarks: options.Landmarks = 500,
    landmarks_by: options.LandmarksBy = None,
    epochs: options.Epochs = None,
    keep_epochs: options.KeepEpochs = None,
    half_life: options.HalfLife = None,
    bandwidth: options.Bandwidth = None,
    bandwidth_factor: options.BandwidthFactor = None,
    whitening: options.Whitening = None,
    rotation: options.RotationName = None,
    epsilon: options.Epsilon = None,
    seed: options.Seed = 0,
    refresh: options.Refresh = None,
    columns: options.Columns = None,
    ids: options.Ids = None,
    format_: options.Format = None,
    follow: options.Follow = False,
    idle: options.Idle = None,
    retry_seconds: options.Retry = None,
    changed_source: options.ChangedSource = options.Changed.refuse,
    skip_bad: options.SkipBad = False,
    commit_rows: options.CommitRows = options.PACE.rows,
    commit_seconds: options.CommitSeconds = options.PACE.seconds,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    log_json: options.LogJson = False,
    metrics_port: options.MetricsPort = None,
) -> None:
    """Give every row of a stream its code at once, and learn from it.

    OUT gets codes/, model.safetensors (the learner), coders.safetensors (what encodes queries in
    the last epoch), epochs/ (the same for the epochs before, a file each) and, with --skip-bad,
    rejects.jsonl. All is committed together now and then: after a crash or a signal the same
    command goes on, and the end is the same to the byte.
    """
    settings = Settings(
        bits=bits,
        method=method,
        n_landmarks=n_landmarks,
        landmarks_by=landmarks_by or "uniform",
        epochs=options.as_epochs(epochs),
        half_life=half_life,
        bandwidth=bandwidth,
        bandwidth_factor=bandwidth_factor,
        whitening=whitening,
        rotation=rotation,
        epsilon=epsilon,
        seed=seed,
        refresh=refresh or "auto",
    ).checked()
    accept = changed_source == options.Changed.accept
    source = open_any(
        sources, ReadOptions(columns, ids, format_, follow, idle, retry_seconds, accept)
    )
    plain, work = settings.plain(), Online(settings, keep_epochs)
    plan = JobPlan(
        "online", source, work, plain, out, bits, to, skip_bad, retry_seconds=retry_seconds
    )
    run(plan, Pace(commit_rows, commit_seconds), Told(as_json, quiet, log_json, metrics_port))
