"""kirchhoff train: stopped and killed at any moment, its directory, its errors."""
import json
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import CLEAN, KIRCHHOFF, Case, run

MODEL = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_head": 8, "attn_only": True, "act_fn": None, "normalization_type": "LN",
         "positional_embedding_type": "shortformer"}
TRAINING = {"steps": 150, "batch": 4, "context": 16, "learning_rate": 3e-3, "warmup": 10, "seed": 5,
            "checkpoints": {"steps": [0], "every": 40, "per_doubling": 1}, "evaluations": {"every": 20, "per_doubling": 1}}
CHECKPOINTS = [0, 1, 2, 4, 8, 16, 32, 40, 64, 80, 120, 128, 150]
SAVE_EVERY = 7


def config(**changes):
    """A run over text; `changes` replace whole sections, None takes one out."""
    sections = {"model": MODEL, "tokenizer": {"vocabulary": 300}, "training": TRAINING, **changes}
    return {key: value for key, value in sections.items() if value is not None}


def text_of(seed, words=4000):
    """Words that follow each other by a rule that can be learnt, in documents."""
    source = random.Random(seed)
    names = ["".join(source.choice("abcdefgh") for _ in range(source.randint(2, 6))) for _ in range(40)]
    out, last = [], 0
    for _ in range(words):
        last = (3 * last + source.randint(0, 2)) % len(names)
        out.append(names[last])
        if source.random() < 0.01:
            out.append("\n<|endoftext|>\n")
    return " ".join(out)


def content(directory):
    """Relative path -> bytes, of all files."""
    directory = pathlib.Path(directory)
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def checkpoints(directory):
    """step -> the weights' bytes, of the checkpoints that are whole."""
    return {int(path.name): (path / "model.safetensors").read_bytes()
            for path in (pathlib.Path(directory) / "checkpoints").glob("*") if path.name.isdigit()}


def saved_step(directory):
    """Of the last saved state; -1 without one."""
    try:
        data = (pathlib.Path(directory) / "state.safetensors").read_bytes()
    except FileNotFoundError:
        return -1
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return int(header["__metadata__"]["step"])


def recorded_steps(directory):
    try:
        lines = (pathlib.Path(directory) / "history.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line)["step"] for line in lines]


class Runs(Case):
    """A text and a config, and the run over them that nothing disturbed."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kirchhoff-train-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        (cls.place / "a.txt").write_text(text_of(1))
        (cls.place / "b.txt").write_text(text_of(2))
        (cls.place / "config.json").write_text(json.dumps(config()))
        cls.whole = cls.place / "whole"
        result = run(*cls.begin(cls.whole), "--quiet", "--threads", "1")
        assert result.returncode == 0, result.stderr
        cls.want = content(cls.whole)

    @classmethod
    def begin(cls, directory):
        return ("train", "--config", cls.place / "config.json", "--data", cls.place / "a.txt", "--data", cls.place / "b.txt",
                "--licence", "public domain", "-o", directory, "--save-every", SAVE_EVERY)

    def resume(self, directory):
        return ("train", "--resume", "-o", directory, "--save-every", SAVE_EVERY)

    def next_command(self, directory):
        return self.resume(directory) if (directory / "training.json").exists() else self.begin(directory)

    def start(self, *arguments):
        process = subprocess.Popen([KIRCHHOFF, *map(str, arguments), "--quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=CLEAN)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def same_run(self, directory):
        got = content(directory)
        self.assertEqual(sorted(got), sorted(self.want), "the same files")
        for name, data in self.want.items():
            self.assertEqual(got[name], data, name)


class Directory(Runs):
    def test_files(self):
        self.assertEqual(sorted(checkpoints(self.whole)), CHECKPOINTS)
        names = {name for name in self.want if not name.startswith("checkpoints")}
        self.assertEqual(names, {"training.json", "state.safetensors", "history.jsonl", "corpus.tokens", "model.safetensors", "config.json",
                                 "tokenizer.json", "tokenizer_config.json", "README.md"})
        for step in CHECKPOINTS:
            place = f"checkpoints/{step:08}/"
            self.assertEqual({name.removeprefix(place) for name in self.want if name.startswith(place)},
                             {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"})
        self.assertEqual(self.want["checkpoints/00000150/model.safetensors"], self.want["model.safetensors"])
        facts = json.loads(self.want["training.json"])
        self.assertEqual((facts["schema"], facts["version"], facts["licence"]), ("kirchhoff.training", 1, "public domain"))
        self.assertEqual([file["name"] for file in facts["data"]["files"]], ["a.txt", "b.txt"])
        card = self.want["README.md"].decode()
        for word in ("public domain", "a.txt", "b.txt", "--config", f"{150 * 4 * 16:,} tokens read"):
            self.assertIn(word, card)

    def test_history(self):
        records = [json.loads(line) for line in self.want["history.jsonl"].splitlines()]
        self.assertEqual([record["step"] for record in records], [0, 1, 2, 4, 8, 16, 20, 32, 40, 60, 64, 80, 100, 120, 128, 140, 150])
        first, last = records[0], records[-1]
        self.assertNotIn("loss", first)
        self.assertAlmostEqual(first["held_out"]["loss"], 5.7, delta=0.6)  # log 300: nothing is known yet
        self.assertLess(last["held_out"]["loss"], first["held_out"]["loss"] - 1.0)
        self.assertEqual(last["tokens"], 150 * 4 * 16)

    def test_every_command_opens_it(self):
        for model in (self.whole, self.whole / "checkpoints" / "00000000", self.whole / "checkpoints" / "00000064"):
            facts = self.json("model", "info", model)
            self.assertEqual((facts["config"]["n_layers"], facts["config"]["d_model"]), (2, 16))
            self.assertEqual(len(self.json("run", model, "abc def")["top"]), 10)
            self.assertEqual(len(self.json("heads", model, "--samples", "2")["heads"]), 4)
        end, near = (self.json("run", self.whole / place, "abc def") for place in ("", "checkpoints/00000150"))
        self.assertEqual(end["top"], near["top"])
        self.assertEqual(end["ids"][0], 0, "BOS is put before a text")

    def test_threads(self):
        directory = self.directory() / "two"
        self.ok(*self.begin(directory), "--quiet", "--threads", "2")
        self.same_run(directory)

    def test_json(self):
        result = self.json("train", "--resume", "-o", self.whole)
        self.assertEqual(list(result), ["schema", "version", "directory", "finished", "step", "steps", "parameters", "history"])
        self.assertEqual((result["finished"], result["step"], result["steps"]), (True, 150, 150))
        self.assertEqual([record["step"] for record in result["history"]], recorded_steps(self.whole))
        self.same_run(self.whole)

    def test_summary(self):
        text = self.ok("train", "--resume", "-o", self.whole)
        self.assertIn("150 of 150 steps", text)
        self.assertIn("held-out loss", text)
        self.assertIn("kirchhoff explain", text)

    def test_tokens_stand_for_their_text(self):
        """A token file made before: its tokenizer is beside it, and nothing is trained or tokenised again."""
        directory = self.directory() / "from-tokens"
        self.ok("train", "--config", self.place / "config.json", "--data", self.whole / "corpus.tokens", "-o", directory, "--quiet")
        self.assertEqual((directory / "model.safetensors").read_bytes(), self.want["model.safetensors"])


class Stopped(Runs):
    def check_progress(self, directory, before):
        """What must hold of a directory whose process was killed: `before` is what this returned the last time."""
        kept = checkpoints(directory)
        for step, weights in kept.items():
            self.assertEqual(weights, self.want[f"checkpoints/{step:08}/model.safetensors"], step)
        self.assertLessEqual(set(before[0]), set(kept), "no checkpoint goes away")
        step = saved_step(directory)
        self.assertGreaterEqual(step, before[1], "a state is replaced by a later one only")
        # Everything up to the last save before the last record is kept: a record comes before the save of its own step.
        last = max(recorded_steps(directory), default=0)
        if last > step:
            saves = [s for s in range(step + 1, last) if s % SAVE_EVERY == 0 or s in CHECKPOINTS]
            self.assertEqual(saves, [], f"saved: {step}, recorded: {last}")
        return set(kept), step

    def finish(self, directory):
        self.ok(*self.next_command(directory), "--quiet")
        self.same_run(directory)

    def test_killed_at_random_moments(self):
        directory = self.directory() / "killed"
        source, kills, state = random.Random(3), 0, (set(), -1)
        for _ in range(25):
            process = self.start(*self.next_command(directory))
            time.sleep(source.uniform(0.0, 0.12))
            process.kill()
            if process.wait() == 0:
                break
            kills += 1
            state = self.check_progress(directory, state)
        self.assertGreater(kills, 2)
        self.finish(directory)

    def test_killed_right_after_a_file_appears(self):
        directory, state = self.directory() / "killed", (set(), -1)
        for name in ("tokenizer.json", "corpus.tokens", "training.json", "history.jsonl", "state.safetensors", "checkpoints/00000000",
                     "checkpoints/00000001.part", "checkpoints/00000002", "checkpoints/00000008", "checkpoints/00000032.part",
                     "state.safetensors.part", "checkpoints/00000064.part/model.safetensors.part", "checkpoints/00000080",
                     "model.safetensors.part", "config.json", "model.safetensors", "README.md.part", "README.md"):
            process = self.start(*self.next_command(directory))
            while not (directory / name).exists() and process.poll() is None:
                time.sleep(0.0002)
            process.kill()
            process.wait()
            state = self.check_progress(directory, state)
        self.finish(directory)

    def test_interrupted(self):
        directory = self.directory() / "interrupted"
        steps = set()
        for target in (1, 16, 64):
            arguments = self.next_command(directory)[:-1] + (10**6,)  # the interrupt alone saves, and checkpoints
            process = self.start(*arguments)
            while not (directory / f"checkpoints/{target:08}").exists() and process.poll() is None:
                time.sleep(0.0005)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            if process.returncode == 0:
                continue  # it was faster
            self.assertEqual(process.returncode, 130, err)
            self.assertIn("interrupted after step", err.decode())
            self.assertIn("kirchhoff train --resume -o", err.decode())
            step = int(err.decode().split("after step ")[1].split()[0].rstrip("."))
            self.assertEqual(saved_step(directory), step, "the state is saved at once")
            steps.add(step)
        self.assertTrue(steps)
        self.finish(directory)

    def test_until(self):
        directory = self.directory() / "until"
        first = self.json(*self.begin(directory), "--until", "20", "--quiet")
        self.assertEqual((first["finished"], first["step"]), (False, 20))
        text = self.ok(*self.resume(directory), "--until", "45", "--quiet")
        self.assertIn("45 of 150 steps", text)
        self.assertIn("kirchhoff train --resume -o", text)
        self.assertEqual(saved_step(directory), 45)
        self.assertEqual(self.json(*self.resume(directory), "--until", "30", "--quiet")["step"], 45)
        self.finish(directory)

    def test_minutes(self):
        directory = self.directory() / "minutes"
        result = self.json("train", "--preset", "repeated-tokens-2l", "--steps", "100000", "--minutes", "0.005", "-o", directory, "--quiet")
        self.assertFalse(result["finished"])
        self.assertEqual(saved_step(directory), result["step"])
        self.assertGreater(result["step"], 0)

    def test_full_disk(self):
        """As if it were full: no file may grow beyond the tokens'. The state stays the last whole one."""
        directory = self.directory() / "full"
        self.ok(*self.begin(directory), "--until", "20", "--quiet")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

        message = self.fails(3, *self.resume(directory), "--quiet", preexec_fn=limit)
        self.assertIn("cannot be written", message)
        self.assertGreaterEqual(saved_step(directory), 20)
        self.finish(directory)


class Errors(Runs):
    def setUp(self):
        self.new = self.directory() / "new"

    def written(self, sections):
        path = self.directory() / "config.json"
        path.write_text(sections if isinstance(sections, str) else json.dumps(sections))
        return path

    def refused(self, status, sections, *words, data=True):
        """A config that must be refused, without a directory that looks like a run."""
        path = self.written(sections)
        message = self.fails(status, "train", "--config", path, *(("--data", self.place / "a.txt") if data else ()), "-o", self.new)
        for word in words:
            self.assertIn(word, message)
        self.assertFalse((self.new / "training.json").exists())
        return message

    def test_options(self):
        self.assertIn("'-o'", self.fails(2, "train", "--preset", "repeated-tokens-1l"))
        message = self.fails(2, "train", "-o", self.new)
        for word in ("--config", "--preset", "--resume", "repeated-tokens-2l"):
            self.assertIn(word, message)
        self.assertIn("--preset", self.fails(2, "train", "--preset", "repeated-tokens-1l", "--config", self.place / "config.json", "-o", self.new))
        self.assertIn("repeated-tokens-2l", self.fails(2, "train", "--preset", "repeated-tokens-9l", "-o", self.new))
        task = ("train", "--preset", "repeated-tokens-1l", "-o", self.new)
        for option, value in (("--save-every", "0"), ("--until", "-1"), ("--minutes", "-1"), ("--steps", "0"), ("--steps", "x"),
                              ("--batch", "0"), ("--learning-rate", "-1"), ("--learning-rate", "nan")):
            self.assertIn(option.lstrip("-").replace("-", "_"), self.fails(2, *task, f"{option}={value}").replace("-", "_"), (option, value))
        self.assertFalse(self.new.exists())

    def test_resume(self):
        self.assertIn(str(self.new), self.fails(3, "train", "--resume", "-o", self.new))
        self.new.mkdir()
        self.assertIn("training.json", self.fails(3, "train", "--resume", "-o", self.new))
        for option in (("--preset", "repeated-tokens-1l"), ("--config", "x"), ("--data", "x"), ("--steps", "5"), ("--batch", "5"),
                       ("--context", "5"), ("--learning-rate", "1"), ("--licence", "x"), ("--seed", "4")):
            self.assertIn(f"'{option[0]}'", self.fails(2, "train", "--resume", "-o", self.whole, *option))

    def test_directories_in_use(self):
        self.assertIn("--resume", self.fails(2, *self.begin(self.whole)))
        self.same_run(self.whole)
        self.new.mkdir()
        (self.new / "README.md").write_text("mine")
        self.assertIn("'README.md'", self.fails(2, *self.begin(self.new)))
        self.assertEqual(content(self.new), {"README.md": b"mine"})
        self.fails(3, *self.begin(self.place / "a.txt"))

    def test_another_process(self):
        process = self.start("train", "--preset", "repeated-tokens-2l", "--steps", "100000", "-o", self.new)
        while not (self.new / "state.safetensors").exists() and process.poll() is None:
            time.sleep(0.001)
        try:
            self.assertIn("another process", self.fails(2, "train", "--resume", "-o", self.new))
            self.assertIn("another process", self.fails(2, *self.begin(self.new)))
        finally:
            process.kill()
            process.wait()
        self.json("train", "--resume", "-o", self.new, "--until", "1", "--quiet")

    def test_data(self):
        self.refused(2, config(), "--data", data=False)
        self.assertIn("task", self.refused(2, config(tokenizer=None, task={"name": "copy"}), "no text"))
        message = self.fails(3, "train", "--config", self.place / "config.json", "--data", self.place / "absent.txt", "-o", self.new)
        self.assertIn("absent.txt", message)
        (self.place / "empty.txt").write_text(" \n<|endoftext|>\n")
        message = self.fails(2, "train", "--config", self.place / "config.json", "--data", self.place / "empty.txt", "-o", self.new)
        self.assertIn("empty.txt", message)
        short = self.directory() / "short.txt"
        short.write_text("abc " * 5)
        message = self.fails(2, "train", "--config", self.place / "config.json", "--data", short, "-o", self.new)
        self.assertIn("windows", message)

    def test_keys(self):
        self.refused(3, "{", "config.json")
        self.refused(3, "[]", "config.json")
        self.refused(3, config(model=None), "'model'")
        self.refused(3, config(extra=1), "extra")
        self.refused(3, config(training={"stepps": 5}), "stepps", "config.json")
        self.refused(3, config(tokenizer={"vocabulary": 300, "merges": 3}), "merges")
        self.refused(3, config(tokenizer={}), "vocabulary", "file")
        self.refused(2, config(tokenizer=None), "tokenizer")
        self.refused(3, config(tokenizer=None, task={"name": "copy", "lenght": 5}), "lenght", data=False)
        self.refused(2, config(tokenizer=None, task={"name": "copying"}), "bracket-matching", data=False)
        self.refused(2, config(tokenizer=None, task={"name": "copy", "modulus": 5}), "modulus", data=False)
        self.refused(3, config(task={"name": "copy"}), "tokenizer", data=False)
        self.refused(3, config(training={"checkpoints": {"each": 5}}), "each")
        self.refused(3, config(model={**MODEL, "n_layer": 2}), "n_layer")
        self.refused(3, config(model={**MODEL, "normalization_type": "batch"}), "normalization_type")
        self.refused(3, config(model={**MODEL, "d_vocab": 100}), "d_vocab", "vocabulary")
        self.refused(3, config(model={**MODEL, "n_ctx": 8}), "n_ctx")

    def test_values(self):
        for key, value in (("steps", 0), ("steps", "many"), ("steps", -3), ("steps", 2.5), ("batch", 0), ("context", 1), ("micro_batch", -1),
                           ("seed", -1), ("seed", 0.5), ("learning_rate", 0), ("learning_rate", "high"), ("betas", [0.9]), ("betas", [0.9, 1.0]),
                           ("epsilon", 0), ("weight_decay", -1), ("clip", -1), ("schedule", "linear"), ("warmup", -1), ("final_fraction", 2),
                           ("init_deviation", -1), ("biases", "no"), ("sinusoidal", 1), ("checkpoints", 5), ("checkpoints", {"steps": 5}),
                           ("evaluations", {"every": -1})):
            result = run("train", "--config", self.written(config(training={**TRAINING, key: value})), "--data", self.place / "a.txt", "-o", self.new)
            self.assertIn(result.returncode, (2, 3), (key, value, result.stderr))
            self.assertIn(key if key not in ("checkpoints", "evaluations") else "", result.stderr, (key, value))
            self.assertIn("expected", result.stderr.replace("must be", "expected"), (key, value))
            self.assertFalse(self.new.exists(), (key, value))

    def test_sinusoids_need_position_vectors(self):
        for kind in ("rotary", "none"):
            model = {**MODEL, "positional_embedding_type": kind}
            if kind == "rotary":
                model["rotary_dim"] = 8
            self.refused(2, config(model=model, training={**TRAINING, "sinusoidal": True}), "sinusoidal")

    def test_broken_directories(self):
        """Each file of a run that is damaged or missing is named."""
        def broken(name, change):
            directory = self.directory() / "run"
            shutil.copytree(self.whole, directory)
            path = directory / name
            data = change(path.read_bytes())
            path.unlink()  # links must not be written through
            if data is not None:
                path.write_bytes(data)
            message = self.fails(3, "train", "--resume", "-o", directory)
            self.assertIn(name, message)
            return message

        def cut(data):
            return data[:len(data) // 2]

        def gone(_):
            return None

        broken("training.json", gone)
        broken("training.json", cut)
        broken("training.json", lambda data: data.replace(b'"model"', b'"modell"'))
        broken("training.json", lambda data: data.replace(b'"n_layers"', b'"n_layerss"'))
        self.assertIn("another run", broken("state.safetensors", lambda data: data.replace(b"public domain", b"pubLic domain")))
        broken("state.safetensors", cut)
        broken("state.safetensors", gone)
        broken("state.safetensors", lambda data: data.replace(b'"step":"150"', b'"step":"15x"'))
        broken("state.safetensors", lambda data: data.replace(b'"step":"150"', b'"step":"151"'))
        broken("history.jsonl", gone)
        broken("history.jsonl", lambda data: data.replace(b'"step"', b'"stop"', 1))
        broken("history.jsonl", lambda data: data.replace(b'"step":1,', b'"step":3,', 1))
        broken("corpus.tokens", gone)
        broken("corpus.tokens", cut)
        broken("tokenizer.json", gone)
        broken("tokenizer.json", cut)

    def test_divergence(self):
        """A loss that is not finite ends the run, naming the step; what was saved is still there."""
        model = {**MODEL, "n_layers": 3, "normalization_type": None}
        path = self.written(config(model=model, training={"steps": 500, "batch": 4, "context": 16, "learning_rate": 100, "warmup": 1, "clip": 0}))
        message = self.fails(4, "train", "--config", path, "--data", self.place / "a.txt", "-o", self.new, "--quiet")
        self.assertRegex(message, r"step \d+")
        self.assertIn("learning rate", message)
        self.assertEqual(saved_step(self.new), 0)


class ZeroLayers(Runs):
    """An embedding that is read out: what needs no head works, what needs one says that there is none."""

    def test_every_command(self):
        model = self.directory() / "zero"
        sections = config(model={**MODEL, "n_layers": 0}, training={**TRAINING, "context": 48, "steps": 30})
        path = self.directory() / "config.json"
        path.write_text(json.dumps(sections))
        data = self.place / "a.txt"
        result = self.json("train", "--config", path, "--data", data, "-o", model, "--quiet")
        self.assertNotIn("heads", result["history"][-1]["held_out"])
        text = self.ok("explain", model, "abc def gah")
        for word in ("Strongest heads", "Parts by layer", "--head"):
            self.assertNotIn(word, text)
        self.assertEqual(self.json("explain", model, "abc def gah")["heads"], [])
        for command in ("dla", "lens", "paths"):
            self.assertIn("embed" if command != "lens" else "final_post", self.ok(command, model, "abc def gah"))
        self.assertEqual(len(self.json("run", model, "abc def")["top"]), 10)
        orders = self.json("terms", model, "--data", data)["orders"]
        self.assertEqual([order["order"] for order in orders][-1:], [0])
        self.ok("icl", model, "--data", data, "--context", "48", "--early", "5", "--late", "40")
        self.assertEqual(self.json("model", "info", model)["config"]["n_layers"], 0)
        self.ok("inspect", model / "model.safetensors")
        self.ok("virtual", model)
        for arguments in (("attn", model, "abc"), ("attn", model, "abc", "--head", "0.0"), ("heads", model), ("heads", model, "--data", data),
                          ("qk-terms", model, "abc", "--head", "0.0"), ("ov", model), ("qk", model), ("ov", model, "--head", "0.0"),
                          ("skip-trigrams", model, "--head", "0.0"), ("ablate", model, "abc", "--head", "0.0"), ("compose", model)):
            message = self.fails(2, *arguments)
            self.assertRegex(message, r"has no layers|the model has none", arguments)


class Tasks(Case):
    def test_each_task_trains(self):
        for task in ("repeated-tokens", "copy", "modular-addition", "sorting", "bracket-matching"):
            directory = self.directory()
            (directory / "config.json").write_text(json.dumps(config(tokenizer=None, task={"name": task},
                                                                     training={"steps": 3, "batch": 4, "warmup": 1})))
            result = self.json("train", "--config", directory / "config.json", "-o", directory / "run", "--quiet")
            self.assertTrue(result["finished"])
            self.assertIn("task", result["history"][-1]["held_out"])
            self.json("model", "info", directory / "run")


if __name__ == "__main__":
    unittest.main()
