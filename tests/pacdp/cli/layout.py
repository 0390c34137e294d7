"""What is wrong with the layout of a page, as a browser draws it: text over text, text cut off, a page too wide."""

from dataclasses import dataclass

# Rectangles of every line of text, with the element that holds it; those in a box that scrolls are cut to the box.
_FAULTS = """
() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) faults.push(`the page is ${root.scrollWidth} wide`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const lines = [];
  const scroller = (node) => {
    for (let up = node; up && up !== document.body; up = up.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return up;
    return null;
  };
  while (walker.nextNode()) {
    const node = walker.currentNode, said = node.textContent.trim();
    if (!said || node.parentElement.closest('details:not([open]) > :not(summary)')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = scroller(node.parentElement);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      if (!box && (r.left < -1 || r.right > window.innerWidth + 1)) faults.push(`cut off: ${said.slice(0, 40)}`);
      const svg = !!node.parentElement.closest('svg');
      lines.push({left: r.left, right: r.right, top: r.top, bottom: r.bottom, said, node, svg});
    }
    const own = node.parentElement, style = getComputedStyle(own);
    const hides = style.overflowX === 'hidden' && own.scrollWidth > own.clientWidth + 1;
    if (hides) faults.push(`hidden: ${said.slice(0, 40)}`);
  }
  lines.sort((a, b) => a.top - b.top);
  for (let i = 0; i < lines.length; i++)
    for (let j = i + 1; j < lines.length && lines[j].top < lines[i].bottom - 2; j++) {
      const a = lines[i], b = lines[j];
      if (a.node === b.node) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const least = (a.svg || b.svg) ? 0.45 : 0.25;
      if (wide > 2 && high > least * Math.min(a.bottom - a.top, b.bottom - b.top))
        faults.push(`over each other: ${a.said.slice(0, 40)} | ${b.said.slice(0, 40)}`);
    }
  for (const bar of document.querySelectorAll('.track > *')) {
    const own = bar.getBoundingClientRect(), track = bar.parentElement.getBoundingClientRect();
    if (own.left < track.left - 3 || own.right > track.right + 3) faults.push('a bar leaves its axis');
  }
  for (const section of document.querySelectorAll('section'))
    if (section.innerText.trim().split('\\n').length < 2) faults.push(`an empty section: ${section.innerText.trim()}`);
  return faults;
}
"""


@dataclass
class Seen:
    """A page as it was drawn."""

    faults: list[str]
    console: list[str]
    requests: list[str]
    headline_bottom: float


def seen(browser, path, *, width, picture):
    """Open a file in a window of this width, and look."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    console, requests = [], []
    page.on("console", lambda message: console.append(message.text))
    page.on("pageerror", lambda error: console.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.screenshot(path=picture, full_page=True)
    headline = page.query_selector(".headline")
    box = headline.bounding_box() if headline else None
    asked = [url for url in requests if url != path.as_uri() and not url.startswith("data:")]
    found = Seen(page.evaluate(_FAULTS), console, asked, box["y"] + box["height"] if box else 0.0)
    page.close()
    return found
