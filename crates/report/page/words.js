// Numbers as people read them, and elements of the page.

const count = (n) => Math.round(n).toLocaleString('en');
const percent = (x, digits = 2) => (x == null ? '–' : `${(x * 100).toFixed(digits)} %`);
const decimal = (x) => (x == null ? '–' : x >= 100 ? x.toFixed(0) : x >= 0.01 || x === 0 ? x.toFixed(4) : x.toExponential(2));
const percentTick = (v) => percent(v, Math.abs(v * 100 - Math.round(v * 100)) < 1e-6 ? 0 : 1);
const byName = (a, b) => a.localeCompare(b, 'en', { numeric: true });

function rate(x) {
  if (x == null) return '–';
  return x >= 1e6 ? `${(x / 1e6).toFixed(2)} M` : x >= 1e5 ? `${(x / 1e3).toFixed(0)} k` : count(x);
}

function bytes(x) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (x >= 999.5 && i < units.length - 1) { x /= 1000; i++; }
  return `${i && x < 9.95 ? x.toFixed(1) : Math.round(x)} ${units[i]}`;
}

const wattHours = (wh) => (wh < 0.1 ? `${(wh * 1000).toFixed(1)} mWh` : `${wh.toFixed(2)} Wh`);

function duration(s) {
  if (s == null || !isFinite(s)) return '–';
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const m = Math.round(s / 60);
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (m < 60 * 48) return `${Math.floor(m / 60)} h ${m % 60} min`;
  return `${Math.floor(m / 1440)} d ${Math.floor(m % 1440 / 60)} h`;
}

const clock = (s) => {
  const whole = Math.floor(s), two = (n) => String(n).padStart(2, '0');
  const h = Math.floor(whole / 3600), rest = `${two(Math.floor(whole % 3600 / 60))}:${two(whole % 60)}`;
  return h ? `${h}:${rest}` : rest;
};

// An element with attributes and children; texts are texts, never markup.
function el(name, attributes = {}, ...children) {
  const svg = name === 'svg' || name === 'path';
  const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const SERIES = ['blue', 'orange', 'green', 'red', 'purple', 'sky', 'brown', 'grey'];
const PHASE_COLOURS = ['yellow', 'sky', 'blue', 'green', 'pale', 'purple', 'orange', 'brown'];

// A small line of how something went, of so many points at most.
function sparkline(values, label) {
  const known = values.map((v) => (v == null ? NaN : v));
  const step = Math.max(1, Math.ceil(known.length / 60)), points = [];
  for (let i = 0; i < known.length; i += step) {
    const part = known.slice(i, i + step).filter(isFinite);
    if (part.length) points.push(part.reduce((a, b) => a + b) / part.length);
  }
  const most = Math.max(...points, 1e-9), width = 90, height = 20;
  const x = (i) => (points.length < 2 ? width : i / (points.length - 1) * width).toFixed(1);
  const path = points.map((v, i) => `${i ? 'L' : 'M'}${x(i)} ${(height - 1 - v / most * (height - 2)).toFixed(1)}`);
  return el('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label },
    points.length ? el('path', { d: path.join('') }) : null);
}
