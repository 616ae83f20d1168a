// The report is complete without this: it adds values under the pointer, series that can
// be hidden, a look at a part of the run, charts as large as the window, and a choice of
// light or dark.
"use strict";

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

const clock = (seconds) => {
  if (seconds < 120) return `${number.format(seconds)} s`;
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
};

// What all charts over time show, in s: [from, to]; null: the whole run.
let view = null;
const charts = [];
const look = (at) => {
  view = at;
  for (const draw of charts) draw();
};

// Of a line: the value at a time, null where it has none; spans ascend.
const value = ([starts, ends], ys, at) => {
  const place = starts.findLastIndex((start) => start <= at);
  return place >= 0 && at <= ends[place] ? ys[place] : null;
};

// What moves a panel's drawing to a view; the clip paths stay.
const movable = (panel) => {
  const axes = document.getElementById(panel.id);
  const [left, , right] = panel.box;
  const [start, end] = panel.x;
  const parts = [];
  const keep = (one, name, changed) => {
    const whole = one.getAttribute(name);
    parts.push((...move) => one.setAttribute(name, changed(whole, ...move)));
  };
  for (const one of axes.querySelectorAll("path[clip-path], [id*=Fill] path"))
    keep(one, "d", (d, x) => d.replace(/(?<=[ML] )\S+/g, x));
  // those at 0 are areas, whose paths have moved
  for (const one of axes.querySelectorAll("[clip-path] > use"))
    if (Number(one.getAttribute("x"))) keep(one, "x", (at, x) => x(at));
  for (const one of axes.querySelectorAll("image")) {
    one.setAttribute("preserveAspectRatio", "none");
    keep(one, "x", (at, x) => x(at));
    keep(one, "width", (width, x, scale) => width * scale);
  }
  const texts = panel.texts.map(([id, at]) => [document.getElementById(id), at]);
  const ticks = axes.querySelectorAll("[id*=xtick_]");
  return ([from, to]) => {
    const scale = (end - start) / (to - from);
    const pt = (right - left) / (to - from); // in a second
    const offset = left + (start - from) * pt;
    const x = (at) => (scale === 1 ? at : (offset + (at - left) * scale).toFixed(2));
    for (const part of parts) part(x, scale);
    for (const [text, at] of texts) {
      text.setAttribute("transform", `translate(${(at - from) * pt - ((at - start) * pt) / scale})`);
      text.style.display = at < from || at > to ? "none" : "";
    }
    for (const tick of ticks) tick.style.display = scale === 1 ? "" : "none";
  };
};

// data: see charts.py, _readable.
const readable = (figure, svg, data) => {
  const hidden = new Set();
  const lines = data.panels.flatMap((panel) => panel.lines);
  const group = svg.parentElement;
  const tools = element("div", { className: "series" });
  figure.insertBefore(tools, group);

  for (const label of new Set(lines.map((line) => line.label))) {
    const colour = lines.find((line) => line.label === label).colour;
    const mark = element("i");
    mark.style.background = colour;
    const button = element("button", { type: "button" }, mark, label);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const isShown = hidden.delete(label);
      if (!isShown) hidden.add(label);
      button.setAttribute("aria-pressed", String(isShown));
      for (const line of lines.filter((one) => one.label === label))
        document.getElementById(line.id)?.classList.toggle("off", !isShown);
    });
    tools.append(button);
  }

  const drawn = (name, className) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    made.setAttribute("class", className);
    svg.append(made);
    return made;
  };
  const set = (one, attributes) => {
    for (const [name, found] of Object.entries(attributes)) one.setAttribute(name, found);
  };
  const tip = element("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  const keys = element("p", {
    className: "keys",
    textContent: "← → values, ↑ ↓ panel, + − zoom, Esc whole run",
  });
  group.append(tip, keys);
  const cursor = drawn("line", "cursor");
  const chosen = drawn("rect", "chosen");
  const ticks = drawn("g", "ticks");
  const all = element("button", { type: "button", textContent: "Whole run", hidden: true });
  all.addEventListener("click", () => {
    look(null);
    group.focus();
  });
  tools.append(all);

  const whole = data.panels[0].x;
  const bottom = Math.max(...data.panels.map(({ box }) => box[3]));
  const seen = () => view ?? whole;
  const time = (x, [left, , right]) =>
    seen()[0] + ((x - left) / (right - left)) * (seen()[1] - seen()[0]);
  const place = (at, [left, , right]) =>
    left + ((at - seen()[0]) / (seen()[1] - seen()[0])) * (right - left);
  const within = (at, [from, to]) => Math.min(to, Math.max(from, at));

  const movers = data.panels.map(movable);
  charts.push(() => {
    hide();
    all.hidden = !view;
    ticks.replaceChildren();
    for (const move of movers) move(seen());
    if (!view) return;
    const [from, to] = view.map((at) => at / data.unit_s);
    const power = 10 ** Math.floor(Math.log10((to - from) / 4));
    const step = power * [1, 2, 5, 10].find((one) => (to - from) / (one * power) <= 8);
    for (const { box } of data.panels.filter((one) => one.box[3] === bottom))
      for (let one = Math.ceil(from / step); one * step <= to; one += 1) {
        const text = document.createElementNS(svg.namespaceURI, "text");
        text.textContent = Number((one * step).toPrecision(7));
        set(text, { x: place(one * step * data.unit_s, box), y: bottom + 9.5 });
        ticks.append(text);
      }
  });
  const zoom = (from, to) => {
    const length = within(to - from, [(whole[1] - whole[0]) / 200, whole[1] - whole[0]]);
    const start = within((from + to - length) / 2, [whole[0], whole[1] - length]);
    look(length < whole[1] - whole[0] ? [start, start + length] : null);
  };

  let at = null; // of the cursor, in s
  let panel = data.panels[0];
  const show = () => {
    const [, top, , low] = panel.box;
    const rows = panel.lines
      .filter((line) => !hidden.has(line.label))
      .map((line) => [line.label, value(data.spans[line.spans], line.y, at)])
      .filter(([, found]) => found !== null)
      .map(([label, found]) => element("div", {}, `${label} ${number.format(found)}`));
    const none = rows.length || !panel.lines.length ? "" : ": no value";
    tip.replaceChildren(element("strong", {}, clock(at)), ` ${panel.unit}${none}`, ...rows);
    tip.hidden = false;
    const bounds = svg.getBoundingClientRect();
    const around = group.getBoundingClientRect();
    const scale = bounds.width / data.width;
    const x = place(at, panel.box);
    const isRight = x > data.width * 0.7;
    const left_px = bounds.left - around.left + group.scrollLeft + x * scale;
    tip.style.left = `${left_px + (isRight ? -10 - tip.offsetWidth : 10)}px`;
    // within the chart, or the group would scroll
    tip.style.top = `${Math.min(top * scale, bounds.height - tip.offsetHeight)}px`;
    set(cursor, { x1: x, x2: x, y1: top, y2: low });
    cursor.style.visibility = "visible";
  };
  const hide = () => {
    tip.hidden = true;
    cursor.style.visibility = "hidden";
  };

  const point = (event) => {
    const bounds = svg.getBoundingClientRect();
    const scale = data.width / bounds.width;
    return [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
  };
  const panelAt = ([x, y]) =>
    data.panels.find(
      ({ box: [from, top, to, low] }) => x >= from && x <= to && y >= top && y <= low,
    );
  let dragged = null; // from where on, in pt, within `panel`
  const drop = () => {
    dragged = null;
    chosen.style.visibility = "hidden";
  };
  const draggedTo = (event) => {
    const [left, , right] = panel.box;
    return [dragged, within(point(event)[0], [left, right])].sort((a, b) => a - b);
  };
  svg.addEventListener("pointerdown", (event) => {
    // a finger scrolls
    const found = panelAt(point(event));
    if (event.button || event.pointerType === "touch" || !found) return;
    panel = found;
    dragged = point(event)[0];
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (dragged !== null) {
      const [x, to] = draggedTo(event);
      const [, top] = data.panels[0].box;
      set(chosen, { x, width: to - x, y: top, height: bottom - top });
      chosen.style.visibility = "visible";
      return hide();
    }
    const found = panelAt(point(event));
    if (!found) return hide();
    panel = found;
    at = time(point(event)[0], panel.box);
    show();
  });
  svg.addEventListener("pointerup", (event) => {
    if (dragged === null) return;
    const [from, to] = draggedTo(event);
    drop();
    if (to - from > 4) zoom(time(from, panel.box), time(to, panel.box));
  });
  svg.addEventListener("pointercancel", drop);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("dblclick", () => look(null));
  group.addEventListener("blur", hide);
  group.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target !== group) return;
    const [from, to] = seen();
    const middle = at !== null && at >= from && at <= to ? at : (from + to) / 2;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 0, ArrowDown: 0 };
    if (event.key in moves && !event.shiftKey) {
      const rows = data.panels.indexOf(panel) + { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!moves[event.key]) {
        if (!data.panels[rows]) return; // the page scrolls
        panel = data.panels[rows];
      }
      const wanted = tip.hidden ? middle : middle + (moves[event.key] * (to - from)) / 100;
      at = within(wanted, whole);
      if (at < from || at > to) zoom(from + at - middle, to + at - middle);
      show();
    } else if ("+=-".includes(event.key)) {
      const half = (to - from) * (event.key === "-" ? 1 : 0.25);
      zoom(middle - half, middle + half);
      at = middle;
      show();
    } else return;
    event.preventDefault();
  });
  return tools;
};

// A chart in a dialog as large as the window.
const enlargeable = (figure, tools) => {
  const group = figure.querySelector(".scroll");
  const button = element("button", { type: "button", textContent: "Enlarge" });
  button.addEventListener("click", () => {
    const title = figure.querySelector("figcaption strong").textContent;
    const close = element("button", { type: "button", textContent: "Close" });
    const dialog = element("dialog", {}, close, group);
    dialog.setAttribute("aria-label", title);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      figure.append(group);
      dialog.remove();
      button.focus();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  tools.append(button);
};

for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const data = svg && svg.querySelector("metadata");
  let tools = null;
  if (data) tools = readable(figure, svg, JSON.parse(data.textContent));
  else {
    tools = element("div", { className: "series" });
    figure.insertBefore(tools, figure.querySelector(".scroll"));
  }
  enlargeable(figure, tools);
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !view) return;
  event.preventDefault(); // a dialog stays open
  look(null);
});
// on paper: all of the run
let looked = null;
addEventListener("beforeprint", () => {
  looked = view;
  look(null);
});
addEventListener("afterprint", () => look(looked));

const themes = ["light dark", "light", "dark"];
const theme = element("button", { type: "button", className: "theme" });
const paint = (name) => {
  document.documentElement.style.colorScheme = name;
  theme.textContent = { "light dark": "Theme: system", light: "Theme: light", dark: "Theme: dark" }[name];
};
theme.addEventListener("click", () => {
  const now = document.documentElement.style.colorScheme;
  paint(themes[(themes.indexOf(now) + 1) % themes.length]);
});
paint(themes[0]);
document.querySelector("nav").append(theme);
