# Figures of curves and heat maps by gnuplot, as SVG and PNG. Imported by scripts/plots, which
# decides what is in them. A figure is one or more panels side by side with one legend.
import os
import subprocess

COLOURS = ("#0060ad", "#dd6600", "#008844", "#8a2be2", "#c00030", "#777777", "#a07000", "#00a0b0",
           "#e377c2", "#404040", "#6b8e23", "#4b0082")
POINTS = (7, 5, 9, 11, 13, 4, 6, 8, 10, 12, 2, 3)
CHARACTER_PIXELS = 8  # of the legend, at most


class Panel:
    """curves: (label, style index, [(x, y)]) or, with bars, [(x, y, low, high)]."""

    def __init__(self, title, ylabel, curves, **settings):
        self.title, self.ylabel, self.curves = title, ylabel, curves
        self.xlabel = settings.get("xlabel", "size")
        self.logx = settings.get("logx", 2)
        self.logy = settings.get("logy", True)
        self.line_at = settings.get("line_at")
        self.names = settings.get("names")  # of x = 0, 1, ...
        self.bars = settings.get("bars", False)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def block(name, points):
    lines = [" ".join(f"{value:.9g}" for value in point) for point in points]
    return f"${name} << EOD\n" + "\n".join(lines) + "\nEOD\n"


def size_tics(low, high):
    """Powers of 16 from 8 bytes on, named."""
    size, tics = 8, []
    while size <= high * 1.5:
        unit, of = next((u, b) for u, b in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10),
                                            ("B", 1)) if size >= b)
        if size >= low / 1.5:
            tics.append(f"'{size // of} {unit}' {size}")
        size *= 16
    return ", ".join(tics)


def panel_commands(panel, number, has_legend):
    blocks, plots, drawn = "", [], []
    for at, (label, style, points) in enumerate(panel.curves):
        points = [p for p in points if p[1] > 0] if panel.logy else points
        if not points:
            continue
        drawn += points
        name = f"p{number}c{at}"
        blocks += block(name, points)
        title = f"title {quoted(label)}" if has_legend else "notitle"
        with_what = "yerrorlines" if panel.bars else "linespoints"
        plots.append(f"${name} using {'1:2:3:4' if panel.bars else '1:2'} with {with_what} "
                     f"linewidth 2 linecolor rgb '{COLOURS[style % len(COLOURS)]}' "
                     f"pointtype {POINTS[style % len(POINTS)]} pointsize 0.7 {title}")
    if panel.line_at is not None:
        plots.append(f"{panel.line_at} with lines linecolor rgb '#777777' notitle")
    if not drawn:
        return "", ""
    low, high = min(p[0] for p in drawn), max(p[0] for p in drawn)
    commands = ["unset logscale", "set xtics autofreq", "set format x '%g'", "set format y '%g'",
                f"set title {quoted(panel.title)} noenhanced",
                f"set xlabel {quoted(panel.xlabel)}", f"set ylabel {quoted(panel.ylabel)}"]
    if panel.logx:
        commands += [f"set logscale x {panel.logx}", f"set xrange [{low / 1.5}:{high * 1.5}]",
                     f"set xtics norotate ({size_tics(low, high)})"]
    else:
        commands.append(f"set xrange [{low - 0.5}:{high + 0.5}]")
    if panel.names:
        tics = ", ".join(f"{quoted(name)} {at}" for at, name in enumerate(panel.names))
        commands.append(f"set xtics ({tics}) rotate by -30")
    commands.append("set logscale y" if panel.logy else "set yrange [0:*]")
    commands.append(f"set key at screen {has_legend:.4f},0.86 left top vertical Left reverse "
                    "noenhanced samplen 2" if has_legend else "set key off")
    commands.append("plot " + ", ".join(plots))
    return blocks, "\n".join(commands) + "\n"


def draw(base, commands, size):
    os.makedirs(os.path.dirname(base) or ".", exist_ok=True)
    for kind, terminal in (("svg", "svg enhanced dynamic background 'white'"),
                           ("png", "pngcairo enhanced")):
        text = (f"set terminal {terminal} size {size[0]},{size[1]}\n"
                f"set output {quoted(base + '.' + kind)}\n{commands}")
        done = subprocess.run(["gnuplot"], input=text, text=True, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"gnuplot: {base}: {done.stderr.strip()}")


def curves(base, title, panels):
    """Panels side by side; right of them the legend, of the one with the most curves."""
    longest = max((len(label) for panel in panels for label, _, _ in panel.curves), default=0)
    width, height = 480 * len(panels) + 80 + CHARACTER_PIXELS * longest, 440
    most = max(range(len(panels)), key=lambda n: len(panels[n].curves))
    legend_at = 480 * len(panels) / width
    parts = [panel_commands(panel, n, legend_at if n == most else 0)
             for n, panel in enumerate(panels)]
    commands = "set encoding utf8\n" + "".join(blocks for blocks, _ in parts)
    commands += f"set multiplot title {quoted(title)} noenhanced\nset grid\n"
    share = 480 / width
    for n, (_, part) in enumerate(parts):
        commands += (f"set origin {n * share:.4f},0\n"
                     f"set size {share:.4f},{400 / height:.4f}\n"
                     f"set lmargin at screen {n * share + 100 / width:.4f}\n"
                     f"set rmargin at screen {(n + 1) * share - 20 / width:.4f}\n{part}")
    draw(base, commands + "unset multiplot\n", (width, height))


def heat_map(base, title, matrix, unit, slow):
    """matrix[from][to], None where nothing was measured; slow: set of (from, to)."""
    n = len(matrix)
    cells = [(to, sender, matrix[sender][to]) for sender in range(n) for to in range(n)
             if matrix[sender][to] is not None]
    marked = [(to, sender) for sender, to in sorted(slow)]
    pixels = max(420, min(1000, 70 * n + 160))
    commands = block("cells", cells) + (block("slow", marked) if marked else "")
    commands += (f"set encoding utf8\nset title {quoted(title)} noenhanced\nset key off\n"
                 f"set xrange [-0.5:{n - 0.5}]\nset yrange [{n - 0.5}:-0.5]\n"
                 "set xtics 1 scale 0\nset ytics 1 scale 0\nset xlabel 'to rank'\n"
                 f"set ylabel 'from rank'\nset cblabel {quoted(unit)}\nset cbrange [0:*]\n"
                 "set palette defined (0 '#c00030', 0.5 '#ffffbf', 1 '#3080c0')\n"
                 "set style fill solid\nset size square\n"
                 "plot $cells using 1:2:(0.5):(0.5):3 with boxxyerror palette"
                 + (", $cells using 1:2:(sprintf('%.3g', $3)) with labels" if n <= 16 else "")
                 + (", $slow using 1:2:(0.48):(0.48) with boxxyerror fill empty linewidth 3 "
                    "linecolor rgb 'black'" if marked else "") + "\n")
    draw(base, commands, (pixels + 120, pixels))
