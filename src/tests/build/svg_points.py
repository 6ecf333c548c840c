#!/usr/bin/env python3
"""Reads the points of a figure of scripts/plots back: svg_points.py FILE prints "panel curve x y" of
each, in the units of the axes, from where the points and the marks of the axes are drawn. The curve
is its number in the panel; both count from 0. Axes are logarithmic.
"""
import math
import re
import sys

TICK = re.compile(r"d='M([\d.]+),([\d.]+) L([\d.]+),([\d.]+) M(?:(?!d=').)*?"
                  r"<text><tspan[^>]*>([^<]*)<", re.DOTALL)
GROUP = re.compile(r'<g id="gnuplot_plot_(\d+)([a-z]?)"')
POINT = re.compile(r"<use xlink:href='#gpPt\d+' transform='translate\(([\d.]+),([\d.]+)\)")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def value_of(text):
    number, _, unit = text.strip().partition(" ")
    return float(number) * UNITS[unit or "B"]


def axis(marks):
    """From pixels to values, by the outermost marks."""
    (low, first), (high, last) = marks[0], marks[-1]
    slope = (math.log(last) - math.log(first)) / (high - low)
    return lambda pixel: math.exp(math.log(first) + (pixel - low) * slope)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    events = [(m.start(), "tick", m) for m in TICK.finditer(text)]
    events += [(m.start(), "group", m) for m in GROUP.finditer(text)]
    events += [(m.start(), "point", m) for m in POINT.finditer(text)]
    xs, ys, panel, curve, has_points = [], [], -1, 0, True
    for _, kind, match in sorted(events, key=lambda event: event[0]):
        if kind == "tick":
            if has_points:
                xs, ys, has_points, panel = [], [], False, panel + 1
            x1, y1, x2, _ = (float(match[n]) for n in range(1, 5))
            try:
                value = value_of(match[5])
            except (KeyError, ValueError):
                continue
            if x1 == x2:
                xs.append((x1, value))
            else:
                ys.append((y1, value))
        elif kind == "group":
            curve, has_points = int(match[1]) - 1, True
        elif has_points:
            x, y = float(match[1]), float(match[2])
            right = 2 * xs[-1][0] - xs[-2][0]
            if xs[0][0] - 80 < x < right:  # not the samples of the legend
                print(panel, curve, f"{axis(xs)(x):.6g}", f"{axis(ys)(y):.6g}")


main()
