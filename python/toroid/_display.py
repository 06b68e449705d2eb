"""Tables, as text and for notebooks."""

import html


def text_table(head, rows):
    """Columns of equal width; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    right = [bool(rows) and all(isinstance(row[i], (int, float)) or _is_number(str(row[i])) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right)).rstrip() for row in cells]
    return "\n".join(lines)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def html_table(title, head, rows):
    """The same for _repr_html_."""

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<div><b>{html.escape(title)}</b><table>{row(head, 'th')}{''.join(row(each, 'td') for each in rows)}</table></div>"


def byte_size(count):
    """4096 as "4.0 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
