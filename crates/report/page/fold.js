'use strict';
// A run as the page knows it: the fold of its events, whether they are in the page or come while it is open.

const PHASES = ['data', 'forward', 'backward', 'encode', 'wait', 'apply', 'evaluate', 'checkpoint'];

class Run {
  constructor(source) {
    this.source = source;
    this.label = source.label;
    this.folder = source.folder;
    this.started = null;
    this.summary = null;
    this.offset = 0; // Seconds of the processes before this one.
    this.last = 0; // The newest time.
    this.progress = { at: [], round: [], epoch: [], loss: [], accuracy: [], lr: [], speed: [] };
    this.tests = { at: [], round: [], epoch: [], loss: [], accuracy: [], f1: [] };
    this.samples = 0;
    this.marks = [];
    this.log = [];
    this.nodes = new Map(); // By name.
    this.strips = new Map(); // By name of a worker or machine: [at, seconds, phases].
    this.wh = new Map(); // Spent so far, by name of a machine.
    this.machines = new Map(); // By name: [at, cores, busy, rss, in, out, celsius, throttled, watts].
    this.target = null;
    this.ended = false;
    this.waiting = null;
    for (const event of source.events) this.take(event);
  }

  // Takes an event, as `report/src/page/encode.rs` writes it.
  take(event) {
    const [kind, time] = event;
    const at = kind === 's' ? (this.offset = this.started ? this.last : 0) + time : this.offset + time;
    this.last = Math.max(this.last, at);
    const take = {
      s: () => this.begin(event[2]),
      r: () => this.goBack(event[2], at),
      p: () => this.advance(at, event),
      t: () => this.test(at, event),
      n: () => this.sawNodes(at, event),
      m: () => this.sampled(at, event),
      h: () => this.shared(event[3]),
      x: () => this.told(at, event),
      z: () => { this.summary = event[2]; this.ended = true; },
    }[kind];
    if (take) take();
  }

  begin(facts) {
    this.started = facts;
    this.ended = false;
    this.summary = null;
    this.since = [this.last, 0];
  }

  // What is done again is taken back.
  goBack(round, at) {
    for (const columns of [this.progress, this.tests]) {
      let keep = columns.round.length;
      while (keep > 0 && columns.round[keep - 1] > round) keep--;
      for (const name in columns) columns[name].length = keep;
    }
    this.since = [at, round];
  }

  advance(at, [, , round, epoch, loss, accuracy, lr, samples, speed]) {
    const p = this.progress;
    if (p.round.length && round < p.round[p.round.length - 1]) this.goBack(round - 1, at);
    push(p, { at, round, epoch, loss, accuracy, lr, speed });
    this.samples = samples;
    this.waiting = null;
  }

  test(at, [, , round, epoch, loss, accuracy, f1]) {
    push(this.tests, { at, round, epoch, loss, accuracy, f1 });
  }

  sawNodes(at, [, , , lines]) {
    for (const [number, name, role, speed, wait, staleness, sent, received, late] of lines) {
      const node = this.node(name);
      Object.assign(node, { number, role, speed, wait, staleness, lost: null, heard: at });
      node.sent += sent;
      node.received += received;
      node.late += late;
      node.at.push(at);
      node.speeds.push(speed);
      node.waits.push(wait);
    }
  }

  // How large a part of every round each computes from now on.
  shared(shares) {
    const all = shares.reduce((sum, [, samples]) => sum + samples, 0);
    for (const [name, samples] of shares) this.node(name).share = all ? samples / all : null;
  }

  node(name) {
    if (!this.nodes.has(name)) {
      const node = { name, role: '', sent: 0, received: 0, late: 0, at: [], speeds: [], waits: [] };
      this.nodes.set(name, node);
    }
    return this.nodes.get(name);
  }

  sampled(at, [, , , seconds, lines]) {
    for (const [name, phases, machine] of lines) {
      if (phases.length) list(this.strips, name).push([at, seconds, phases]);
      if (machine) list(this.machines, name).push([at, ...machine]);
      const watts = machine && machine[7];
      if (watts != null) this.wh.set(name, (this.wh.get(name) || 0) + watts * seconds / 3600);
    }
  }

  // What is worth a line: kind, text, and of which round and node it is.
  told(at, [, , round, kind, text, name]) {
    this.log.push({ at, round, kind, text });
    if (kind === 'waiting') this.waiting = text;
    if (kind === 'joined') Object.assign(this.node(name), { lost: null, heard: at });
    if (kind === 'lost' && this.nodes.has(name)) this.nodes.get(name).lost = text;
    if (kind === 'target') this.target = Number(name);
    if (['joined', 'lost', 'back', 'checkpoint', 'target', 'resumed', 'chosen', 'shares'].includes(kind)) {
      this.marks.push({ at, round, kind, text });
    }
  }

  // Seconds by phase of every worker, as [name, sums].
  times() {
    return [...this.strips].map(([name, rows]) => {
      const sums = PHASES.map(() => 0);
      for (const [, , phases] of rows) phases.forEach((seconds, i) => { sums[i] += seconds || 0; });
      return [name, sums];
    });
  }

  // `62 % computing, 31 % waiting for pi3, 7 % wire`, as `report/src/phases.rs` says it of a run that has ended.
  whereTimeWent() {
    if (this.summary && this.summary.time) return this.summary.time;
    const [data, forward, backward, encode, wait, apply, evaluate, checkpoint] = [0, 1, 2, 3, 4, 5, 6, 7];
    const times = this.times();
    const workers = times.filter(([, t]) => t[backward] > 0);
    if (!workers.length) return '';
    const aside = (phase) => times.filter(([, t]) => !t[backward]).reduce((sum, [, t]) => sum + t[phase], 0);
    const busy = (t) => t.reduce((sum, s, i) => (i === wait ? sum : sum + s), 0);
    const [slowest, most] = workers.map(([name, t]) => [name, busy(t)]).reduce((a, b) => (b[1] > a[1] ? b : a));
    const mean = (of) => workers.reduce((sum, [, t]) => sum + of(t), 0) / workers.length;
    const late = mean((t) => Math.min(t[wait], most - busy(t)));
    const parts = [
      ['computing', mean((t) => t[data] + t[forward] + t[backward] + t[apply])],
      [`waiting for ${slowest}`, late],
      [workers.some(([, t]) => t[encode] > 0) ? 'wire' : 'waiting for each other',
        mean((t) => t[wait] + t[encode]) - late],
      ['evaluating', aside(evaluate)],
      ['saving', aside(checkpoint)],
    ];
    const all = parts.reduce((sum, [, s]) => sum + s, 0);
    return parts.filter(([, s]) => s / all >= 0.005).map(([what, s]) => `${Math.round(s / all * 100)} % ${what}`)
      .join(', ');
  }

  now() {
    const p = this.progress, last = p.round.length - 1;
    return last < 0 ? null : { round: p.round[last], epoch: p.epoch[last], loss: p.loss[last], speed: p.speed[last] };
  }

  // Seconds that are left, by what this process has done so far.
  left() {
    const now = this.now();
    if (!now || !this.started || this.ended) return null;
    const [at, round] = this.since || [0, 0];
    const done = now.round - round;
    return done > 0 ? (this.last - at) / done * Math.max(0, this.started.rounds - now.round) : null;
  }
}

function push(columns, row) {
  for (const name in columns) columns[name].push(row[name]);
}

function list(map, key) {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
}
