"""Reading a report's page as a strict reader would, and folders to report on."""

import copy
import functools
import json
import operator
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "link", "input"}
_ADDRESSES = ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "formaction", "background")


class Page(HTMLParser):
    """Text, tags, ids, references and tables of a page; tags that are not closed in order are an error."""

    def __init__(self, text):
        super().__init__()
        self.source, self.text = text, ""
        self.tags, self.ids, self.references, self.attributes, self.tables, self._open = ([] for _ in range(6))
        self.feed(text)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self._seen(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        assert tag in _VOID, f"<{tag}/> closes nothing in HTML"
        self._seen(tag, attrs)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()

    def handle_data(self, data):
        if "style" in self._open:
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data

    def _seen(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, values))
        self.ids += [values["id"]] if values.get("id") else []
        self.references += [value or "" for name, value in attrs if name in _ADDRESSES]


def page_of(path):
    """The page in a file, parsed."""
    return Page(path.read_text(encoding="utf-8"))


def changed(report, path, value=None):
    """The report with another value in a place such as "certificates/0/value", or with nothing there."""
    whole = copy.deepcopy(report)
    *above, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    place = functools.reduce(operator.getitem, above, whole)
    if value is None:
        del place[last]
    else:
        place[last] = value
    return whole


def write(path, values):
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
