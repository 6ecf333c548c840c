#!/usr/bin/env python3
"""Reads a record of -J with a standard parser, whatever its form, and prints what it says.

read_record.py FILE: lines "status TEXT", "error TEXT", "rows N" (placements that were run),
"wrong N" (placements with wrong data). Fails when the file is no whole document of its form.
read_record.py --fields FILE: the names of the fields, one a line.
read_record.py --value NAME FILE: the field of each placement, one a line; "" where it is null.
"""
import csv
import io
import json
import sys
import xml.etree.ElementTree as xml


def read_json(text):
    document = json.loads(text)
    rows = []
    for row in document["results"]:
        for place in ("out_of_place", "in_place"):
            if row[place]:
                rows.append({**document, **row, **row[place], "place": place})
    return rows, document["status"], document["error"]


def read_lines(text):
    lines = [json.loads(line) for line in text.splitlines()]
    if lines[-1]["kind"] != "end" or any(line["kind"] == "end" for line in lines[:-1]):
        raise ValueError("the end is not at the end")
    rows = [line for line in lines if line["kind"] == "row" and line["status"] != "skipped"]
    return rows, lines[-1]["status"], lines[-1]["error"]


def read_csv(text):
    if text.count("\n") != text.count("\r\n"):
        raise ValueError("a line does not end as RFC 4180 says")
    lines = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    if any(None in line or None in line.values() for line in lines):
        raise ValueError("a line has more or fewer cells than the first")
    rows = [line for line in lines if line["kind"] == "row" and line["status"] != "skipped"]
    if [line["kind"] for line in lines].index("end") != len(lines) - 1:
        raise ValueError("the end is not at the end")
    return rows, lines[-1]["status"], lines[-1]["error"]


def read_junit(text):
    suite = xml.fromstring(text.encode()).find("testsuite")
    cases = suite.findall("testcase")
    counts = {"tests": len(cases)}
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[name] = sum(case.find(element) is not None for case in cases)
    for name, count in counts.items():
        if int(suite.get(name)) != count:
            raise ValueError(f"{name} is {suite.get(name)}, but there are {count}")
    run = [case for case in cases if case.get("classname") == "run"][0].find("error")
    rows = [{"nwrong": len(case.findall("failure")), "time": case.get("time")}
            for case in cases if case.get("classname") != "run" and case.find("skipped") is None]
    status = "passed" if run is None else run.get("type")
    return rows, status, None if run is None else run.get("message")


READERS = {".jsonl": read_lines, ".csv": read_csv, ".xml": read_junit}


def main():
    path = sys.argv[-1]
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    reader = next((READERS[end] for end in READERS if path.endswith(end)), read_json)
    rows, status, error = reader(text)
    if sys.argv[1] == "--fields":
        print("\n".join(rows[0]))
    elif sys.argv[1] == "--value":
        for row in rows:
            value = row[sys.argv[2]]
            print("" if value is None else value)
    else:
        print("status", status)
        print("error", error or "none")
        print("rows", len(rows))
        print("wrong", sum(int(row["nwrong"] or 0) > 0 for row in rows))


main()
