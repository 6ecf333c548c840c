# Records of drivers (docs/records.md) as regress, compare, plots and iters read them. Imported by
# these scripts only; a record is read whole, and what is no record raises ValueError.
import json
import statistics

# Keys of the run that every row of `rows` repeats.
RUN_KEYS = ("driver", "collective", "library", "nccl_version", "git_hash", "host", "nranks",
            "group_size", "nprocs", "device_kind", "device_name", "init_mode", "start_time",
            "bus_factor", "command")


def load(path):
    """The document of a .json file, or one made of the lines of a .jsonl file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        document = json.loads(text)
    except ValueError:
        document = from_lines([json.loads(line) for line in text.splitlines() if line.strip()])
    if not isinstance(document, dict):
        raise ValueError(f"{path}: no record")
    return document


def from_lines(lines):
    document = {"results": []}
    for line in lines:
        kind = line.get("kind")
        if kind == "machine":
            document.update(line)
        elif kind == "row":
            row = dict(line, out_of_place=None, in_place=None)
            if line["place"]:
                row[line["place"]] = line
                row[line["place"] + "_per_iter"] = line.get("per_iter")
            document["results"].append(row)
        elif kind == "end":
            document.update({k: line[k] for k in line if k != "kind"})
    return document


def rows(document):
    """Every placement that was run, as one dict with the keys of the run, the row and the place."""
    run = {key: document.get(key) for key in RUN_KEYS}
    for row in document.get("results", []):
        for place in ("out_of_place", "in_place"):
            if row.get(place):
                yield {**run, **row, **row[place], "place": place}


def cell(row):
    """What makes two placements the same measurement; "from" and "to" are those of --pairs."""
    place = row["place"]
    if row.get("from") is not None and row["from"] >= 0:
        place += f" {row['from']} -> {row['to']}"
    return row["size"], row["type"], row["redop"], row["root"], place


def times(documents):
    """{cell: [microseconds of every cycle of every run]}"""
    found = {}
    for document in documents:
        for row in rows(document):
            if row["time"]:
                found.setdefault(cell(row), []).append(row["time"])
    return found


def medians(documents):
    return {key: statistics.median(values) for key, values in times(documents).items()}


def size_text(size):
    for unit, bytes_of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_of:
            return f"{size / bytes_of:g} {unit}"
    return f"{size:g} B"


def cell_text(key):
    size, kind, redop, root, place = key
    words = [size_text(size), kind] + ([redop] if redop != "none" else [])
    return " ".join(words + ([f"root {root}"] if root >= 0 else []) + [place.replace("_", " ")])
