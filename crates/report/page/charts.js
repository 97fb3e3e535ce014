// Charts by uPlot, and the strips of phases.

const MARKS = { joined: 'green', back: 'green', lost: 'red', target: 'purple', resumed: 'grey', chosen: 'sky', shares: 'sky' };

// Rounds and workers are whole.
const WHOLE = [1, 2, 5].flatMap((n) => [n, n * 10, n * 100, n * 1e3, n * 1e4, n * 1e5, n * 1e6, n * 1e7]).sort((a, b) => a - b);

class Chart {
  // `view(by)` gives series [{label, colour, x, y, dashed, points}], marks and a level, for an axis of rounds, epochs
  // or time.
  constructor(title, options, view) {
    Object.assign(this, { title, options, view, by: 'round', log: false, plot: null });
    this.box = el('div', { class: 'plot', tabindex: 0, role: 'img', 'aria-label': title, onkeydown: (e) => this.key(e) });
    const log = options.log && el('label', { class: 'toggle' },
      el('input', { type: 'checkbox', onchange: (e) => { this.log = e.target.checked; this.draw(); } }), 'log');
    const note = options.note && el('span', { class: 'note' }, options.note);
    this.root = el('section', { class: 'chart' }, el('header', {}, el('h2', {}, title), note, log), this.box);
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  draw() {
    const { series, marks = [], level } = this.view(this.by);
    const used = series.filter((s) => s.x.length);
    this.root.classList.toggle('empty', !used.length);
    this.points = used.reduce((sum, s) => sum + s.x.length, 0);
    this.root.dataset.points = this.points;
    if (!used.length) { this.drop(); return; }
    const data = used.length > 1 ? uPlot.join(used.map((s) => [s.x, s.y])) : [used[0].x, used[0].y];
    Object.assign(this, { marks, level });
    const shape = JSON.stringify([used.map((s) => [s.label, s.colour]), this.by, this.log, document.documentElement.dataset.scheme]);
    if (this.plot && shape === this.shape) { this.plot.setData(data, !this.zoomed()); return; }
    this.shape = shape;
    this.drop();
    this.plot = new uPlot(this.settings(used), data, this.box);
  }

  settings(used) {
    const [ink, grid] = [colour('soft'), colour('grid')], { format } = this.options;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    const x = this.by === 'time' ? clock : (v) => (this.by === 'epoch' && v % 1 ? v.toFixed(2) : count(v));
    const lines = used.map((s) => ({
      label: s.label, stroke: colour(s.colour), width: s.points ? 2 : 1.6, dash: s.dashed && [5, 4], spanGaps: true,
      points: { show: Boolean(s.points) || s.x.length < 3, size: 6, fill: colour('card'), width: 2 },
      value: (u, v) => (v == null ? '–' : format(v)),
    }));
    return {
      width: Math.max(200, this.box.clientWidth), height: this.height(),
      padding: [10, 12, 0, 0],
      scales: { x: { time: false, ...this.options.x }, y: { distr: this.log ? 3 : 1, range: this.log ? null : this.options.range } },
      series: [{ label: this.options.xLabel || this.by, value: (u, v) => (v == null ? '–' : x(v)) }, ...lines],
      axes: [
        { ...axis, size: 28, incrs: this.by === 'round' ? WHOLE : undefined, values: (u, ticks) => ticks.map((v) => (v == null ? '' : x(v))) },
        { ...axis, size: 54, values: (u, ticks) => ticks.map((v) => (v == null ? '' : (this.options.tick || format)(v))) },
      ],
      cursor: { sync: { key: this.options.sync || 'run' }, drag: { x: true, y: false }, points: { size: 7 } },
      legend: { live: true, markers: { width: 0, fill: (u, i) => colour(used[i - 1].colour) } },
      hooks: { drawAxes: [(u) => this.drawMarks(u)] },
    };
  }

  drawMarks(u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio || 1;
    ctx.save();
    const line = (x0, y0, x1, y1, stroke, dash) => {
      ctx.beginPath();
      ctx.strokeStyle = stroke;
      ctx.lineWidth = ratio;
      ctx.setLineDash(dash.map((d) => d * ratio));
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
    };
    const bottom = bbox.top + bbox.height;
    for (const { x, kind } of this.marks) {
      const px = Math.round(u.valToPos(x, 'x', true));
      if (px < bbox.left || px > bbox.left + bbox.width) continue;
      if (kind === 'checkpoint') line(px, bottom, px, bottom - 5 * ratio, colour('soft'), []);
      else line(px, bbox.top, px, bottom, colour(MARKS[kind]), kind === 'lost' ? [] : [3, 3]);
    }
    if (this.level != null) {
      const py = Math.round(u.valToPos(this.level, 'y', true));
      if (py > bbox.top && py < bottom) line(bbox.left, py, bbox.left + bbox.width, py, colour('purple'), [6, 4]);
    }
    ctx.restore();
  }

  zoomed() {
    const { min, max } = this.plot.scales.x, xs = this.plot.data[0];
    return min > xs[0] || max < xs[xs.length - 1];
  }

  // Arrows move along the curve, as the mouse does.
  key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!step || !this.plot) return;
    e.preventDefault();
    const xs = this.plot.data[0], at = this.plot.cursor.idx ?? (step > 0 ? -1 : xs.length);
    const next = Math.min(xs.length - 1, Math.max(0, at + step * (e.shiftKey ? 10 : 1)));
    this.plot.setCursor({ left: this.plot.valToPos(xs[next], 'x'), top: 10 });
  }

  height() { return innerWidth < 600 ? 200 : 240; }

  resize() {
    if (this.plot && this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: this.height() });
  }

  drop() {
    if (this.plot) this.plot.destroy();
    this.plot = this.shape = null;
  }
}

// Columns of shares of time, one below the other for every worker; the last minute of a run that goes on.
class Strips {
  constructor(run) {
    this.run = run;
    this.body = el('div', { class: 'strips' });
    const legend = el('ul', { class: 'legend' }, ...PHASES.map((phase, i) => el('li', { class: `phase-${PHASE_COLOURS[i]}` }, phase)));
    this.span = el('span', { class: 'note' });
    this.root = el('section', { class: 'wide card' }, el('header', {}, el('h2', {}, 'Where the time goes'), this.span), legend, this.body);
    this.rows = new Map();
    new ResizeObserver(() => this.paint()).observe(this.body);
  }

  draw() {
    const { run } = this, last = (name) => Number(name === 'run');
    const names = [...run.strips.keys()].sort((a, b) => last(a) - last(b) || byName(a, b));
    this.root.classList.toggle('empty', !names.length);
    const sums = new Map(run.times());
    const live = goesOn(run);
    this.to = run.last;
    this.from = live ? Math.max(0, run.last - 60) : 0;
    this.span.textContent = live ? 'the last minute' : 'the whole run';
    for (const name of names) {
      if (!this.rows.has(name)) {
        const row = { canvas: el('canvas', { 'aria-hidden': 'true' }), share: el('span', { class: 'share' }) };
        row.root = el('div', { class: 'strip', tabindex: 0 }, el('span', { class: 'name', title: name }, name), row.canvas, row.share);
        this.rows.set(name, row);
      }
      this.body.append(this.rows.get(name).root);
      const t = sums.get(name), all = t.reduce((a, b) => a + b, 0);
      const parts = PHASES.map((phase, i) => [phase, t[i] / all]).filter(([, s]) => s >= 0.005).sort((a, b) => b[1] - a[1]);
      const text = parts.map(([phase, s]) => `${percent(s, 0)} ${phase}`).join(', ');
      this.rows.get(name).share.textContent = parts.slice(0, 2).map(([phase, s]) => `${percent(s, 0)} ${phase}`).join(', ');
      this.rows.get(name).root.setAttribute('aria-label', `${name}: ${text}`);
      this.rows.get(name).root.title = text;
    }
    this.paint();
  }

  paint() {
    const ratio = devicePixelRatio || 1, span = Math.max(this.to - this.from, 1e-9);
    const fill = PHASE_COLOURS.map((name) => colour(`phase-${name}`));
    for (const [name, { canvas }] of this.rows) {
      const width = canvas.clientWidth, height = canvas.clientHeight, ctx = canvas.getContext('2d');
      if (!width) continue;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      for (const [at, seconds, phases] of this.run.strips.get(name) || []) {
        if (at < this.from) continue;
        const whole = Math.max(seconds, phases.reduce((sum, time) => sum + time, 0));
        const x0 = Math.max(0, (at - seconds - this.from) / span) * canvas.width, x1 = (at - this.from) / span * canvas.width;
        let y = canvas.height;
        phases.forEach((time, i) => {
          if (!time) return;
          const h = time / whole * canvas.height;
          ctx.fillStyle = fill[i];
          ctx.fillRect(Math.floor(x0), y - h, Math.max(1, Math.ceil(x1) - Math.floor(x0)), h);
          y -= h;
        });
      }
    }
  }
}
