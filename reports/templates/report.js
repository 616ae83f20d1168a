// The report is complete without this: it adds values under the pointer, series that can
// be hidden, charts as large as the window, and a choice of light or dark.
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

// The place of the value nearest to x; xs ascend.
const nearest = (xs, x) => {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return x - xs[low] <= xs[high] - x ? low : high;
};

// data: see charts.py, _readable.
const readable = (figure, svg, data) => {
  const hidden = new Set();
  const lines = data.panels.flatMap((panel) => panel.lines);

  const toggles = element("div", { className: "series" });
  for (const label of new Set(lines.map((line) => line.label))) {
    const colour = lines.find((line) => line.label === label).colour;
    const mark = element("i");
    mark.style.background = colour;
    const button = element("button", { type: "button" }, mark, label);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const isShown = !hidden.delete(label);
      if (isShown) hidden.add(label);
      button.setAttribute("aria-pressed", String(!isShown));
      for (const line of lines.filter((one) => one.label === label)) {
        const drawn = document.getElementById(line.id);
        if (drawn) drawn.style.display = isShown ? "none" : "";
      }
    });
    toggles.append(button);
  }

  const tip = element("div", { className: "tip", hidden: true });
  const cursor = document.createElementNS(svg.namespaceURI, "line");
  cursor.setAttribute("class", "cursor");
  svg.append(cursor);
  const group = svg.parentElement;
  group.append(tip);

  const show = (panel, x) => {
    const [left, top, right, bottom] = panel.box;
    const [from, to] = panel.x;
    const at = from + ((x - left) / (right - left)) * (to - from);
    const rows = panel.lines
      .filter((line) => !hidden.has(line.label))
      .map((line) => [line, line.y[nearest(data.xs[line.xs], at)]])
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([line, value]) => element("div", {}, `${line.label} ${number.format(value)}`));
    tip.replaceChildren(element("strong", {}, clock(at)), ` ${panel.unit}`, ...rows);
    tip.hidden = false;
    const drawn = svg.getBoundingClientRect();
    const around = group.getBoundingClientRect();
    const scale = drawn.width / data.width;
    const isRight = x > data.width * 0.7;
    const left_px = drawn.left - around.left + group.scrollLeft + x * scale;
    tip.style.left = `${left_px + (isRight ? -10 - tip.offsetWidth : 10)}px`;
    // within the chart, or the group would scroll
    tip.style.top = `${Math.min(top * scale, drawn.height - tip.offsetHeight)}px`;
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: top, y2: bottom }))
      cursor.setAttribute(name, value);
    cursor.style.visibility = "visible";
  };
  const hide = () => {
    tip.hidden = true;
    cursor.style.visibility = "hidden";
  };

  let place = null; // of the cursor, when moved by keys
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    const x = ((event.clientX - bounds.left) / bounds.width) * data.width;
    const y = ((event.clientY - bounds.top) / bounds.height) * data.height;
    const panel = data.panels.find(
      ({ box: [left, top, right, bottom] }) =>
        x >= left && x <= right && y >= top && y <= bottom,
    );
    place = panel ? { panel, x } : null;
    if (place) show(panel, x);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const panel = place ? place.panel : data.panels[0];
    const [left, , right] = panel.box;
    const step = ((right - left) / 100) * (event.key === "ArrowLeft" ? -1 : 1);
    const x = place ? place.x + step : (left + right) / 2;
    place = { panel, x: Math.min(right, Math.max(left, x)) };
    show(panel, place.x);
  });
  group.addEventListener("blur", hide);

  figure.insertBefore(toggles, group);
  return toggles;
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
