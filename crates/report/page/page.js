// The page: of one run, of several, or of a folder of them.

const AXES = ['round', 'epoch', 'time'];

function axisOf(columns, by) {
  return by === 'time' ? columns.at : columns[by];
}

// Where a mark stands on the axis.
function place(run, mark, by) {
  if (by === 'time') return mark.at;
  const p = run.progress;
  let i = p.at.findIndex((at) => at >= mark.at);
  if (i < 0) i = p.at.length - 1;
  if (i < 0) return 0;
  if (mark.round == null) return axisOf(p, by)[i];
  return by === 'round' ? mark.round : p.round[i] ? p.epoch[i] * mark.round / p.round[i] : 0;
}

function marksOf(run, by) {
  return run.marks.filter((mark) => mark.at > 0).map((mark) => ({ x: place(run, mark, by), kind: mark.kind }));
}

// Whether more may come: a log that nobody has written to for long is that of a run that was killed.
function goesOn(run) {
  return Boolean(run.source.live) && !run.ended && (run.isFresh || !(run.source.age_s > 120));
}

function state(run) {
  if (!run.ended) return goesOn(run) ? ['running', 'going on'] : ['stopped', 'no end in the log'];
  return { done: ['done', 'done'], target_reached: ['done', 'target reached'], stopped_early: ['done', 'stopped early'], interrupted: ['stopped', 'interrupted'] }[run.summary.exit] ||
    ['failed', 'failed'];
}

// What evaluations measure.
function partOf(run) {
  return run.started && run.started.validation_samples ? 'validation' : 'test';
}

// One sentence: how far, how long still, who holds up whom.
function verdict(run) {
  const { summary, started } = run, now = run.now(), time = run.whereTimeWent();
  const best = Math.max(...run.tests.accuracy.filter((x) => x != null), -1);
  const accuracy = best >= 0 ? `, ${percent(best)} right on ${partOf(run)} data at best` : '';
  const where = time ? `; ${time}` : '';
  if (run.ended) {
    const how = { done: 'Done in', target_reached: 'Target reached in', stopped_early: 'Stopped early after', interrupted: 'Interrupted after' }[summary.exit] || 'Failed after';
    return `${how} ${duration(run.last)}: ${count(summary.rounds)} rounds${accuracy}${where}.`;
  }
  if (run.waiting) return `${run.waiting[0].toUpperCase()}${run.waiting.slice(1)}.`;
  if (!now) return started ? 'Started; no round is done yet.' : 'Nothing has happened yet.';
  const far = started.rounds ? now.round / started.rounds : 0, left = run.left();
  const still = goesOn(run) && left != null ? `, ${duration(left)} left` : '';
  const lost = [...run.nodes.values()].filter((node) => node.lost).map((node) => node.name);
  const gone = lost.length ? `; ${lost.join(', ')} ${lost.length > 1 ? 'are' : 'is'} lost` : '';
  return `${percent(far, 0)} done${still}${accuracy}${where}${gone}.`;
}

function tiles(run) {
  const { summary, tests, started } = run, now = run.now(), last = tests.accuracy.length - 1;
  const tile = (label, value, more) => el('div', { class: 'tile' }, el('dt', {}, label), el('dd', {}, value, more && el('small', {}, more)));
  const speed = summary ? summary.samples_per_s : now && now.speed;
  const best = tests.accuracy.length ? Math.max(...tests.accuracy) : null;
  const all = [
    last >= 0 && tile(`${partOf(run)} accuracy`, percent(tests.accuracy[last]), best > tests.accuracy[last] ? `best ${percent(best)}` : null),
    last >= 0 && tile(`${partOf(run)} loss`, decimal(tests.loss[last])),
    summary && summary.best_round != null && summary.accuracy != null && tile('test accuracy', percent(summary.accuracy), 'of the best, once'),
    now && tile('training loss', decimal(now.loss)),
    speed && tile('speed', rate(speed), 'samples/s'),
    tile('time', duration(run.last)),
    now && tile('rounds', count(summary ? summary.rounds : now.round), started && `of ${count(started.rounds)}`),
    summary && summary.peak_rss_mb && tile('memory', bytes(summary.peak_rss_mb * 1e6), 'at its peak'),
    summary && summary.wh && tile('energy', wattHours(summary.wh), summary.energy),
  ];
  return el('dl', { class: 'tiles' }, ...all.filter(Boolean));
}

function nodesTable(run) {
  const body = el('tbody'), at = (name) => (run.machines.get(name) || []).at(-1) || [];
  const machines = [...run.machines.values()].flat();
  const has = (place) => machines.some((m) => m[place] != null);
  const columns = [
    ['node', (n) => n.name], ['role', (n) => n.role],
    [...run.nodes.values()].some((n) => n.share != null) && ['share', (n) => percent(n.share, 0)],
    ['samples/s', (n) => rate(n.speed)],
    ['waits', (n) => (n.staleness != null ? `stale ${n.staleness.toFixed(1)}` : percent(n.wait, 0))],
    ['sent', (n) => bytes(n.sent)], ['received', (n) => bytes(n.received)],
    has(1) && ['cores', (n, m) => (m[1] == null ? '–' : m[1].toFixed(1))],
    has(3) && ['memory', (n, m) => (m[3] == null ? '–' : bytes(m[3] * 1e6))],
    has(6) && ['°C', (n, m) => (m[6] == null ? '–' : m[6].toFixed(0) + (m[7] ? ' slowed' : ''))],
    has(8) && ['W', (n, m) => (m[8] == null ? '–' : m[8].toFixed(1))],
    has(8) && ['energy', (n) => (run.wh.has(n.name) ? wattHours(run.wh.get(n.name)) : '–')],
    ['late', (n) => (n.late ? count(n.late) : '–')],
    ['heard', (n) => (n.lost ? 'lost' : n.heard == null ? '–' : !goesOn(run) ? clock(n.heard) : `${duration(Math.max(0, run.last - n.heard))} ago`)],
  ].filter(Boolean);
  const spark = columns.findIndex(([head]) => head === 'samples/s') + 1;
  for (const node of [...run.nodes.values()].sort((a, b) => byName(a.name, b.name))) {
    const cells = columns.map(([head, of], i) => el(i ? 'td' : 'th', { scope: i ? null : 'row', 'data-label': head }, of(node, at(node.name))));
    cells.splice(spark, 0, el('td', { 'data-label': 'speed' }, sparkline(node.speeds, `samples/s of ${node.name}`)));
    body.append(el('tr', { class: node.lost ? 'lost' : null, title: node.lost }, ...cells));
  }
  const heads = columns.map(([head]) => el('th', { scope: 'col' }, head));
  heads.splice(spark, 0, el('th', { scope: 'col' }, 'speed'));
  return el('table', { class: 'nodes' }, el('thead', {}, el('tr', {}, ...heads)), body);
}

// A chart has as many curves as people can tell apart.
const few = (all) => (all > SERIES.length ? `the first ${SERIES.length} of ${all}` : '');

function machineSeries(run, by, column, factor) {
  return [...run.machines].slice(0, SERIES.length).map(([name, rows], i) => {
    const known = rows.filter((row) => row[column] != null);
    const x = known.map((row) => (by === 'time' ? row[0] : place(run, { at: row[0], round: null }, by)));
    return { label: name !== 'run' ? name : run.nodes.size ? 'head' : 'this process', colour: SERIES[i], x: rising(x), y: known.map((row) => row[column] * factor) };
  });
}

// Equal places are moved apart a little, as charts want them to rise.
function rising(x) {
  for (let i = 1; i < x.length; i++) if (!(x[i] > x[i - 1])) x[i] = x[i - 1] + Math.max(1e-9, Math.abs(x[i - 1]) * 1e-9);
  return x;
}

function chartsOf(run) {
  const two = (key) => (by) => ({
    series: [
      { label: 'training', colour: 'blue', x: axisOf(run.progress, by), y: run.progress[key] },
      { label: partOf(run), colour: 'orange', x: axisOf(run.tests, by), y: run.tests[key], points: true },
    ],
    marks: marksOf(run, by),
    level: key === 'accuracy' ? run.target : null,
  });
  const speed = (by) => {
    const nodes = [...run.nodes.values()].filter((node) => node.speeds.some((s) => s > 0)).slice(0, SERIES.length - 1);
    const each = nodes.length > 1 ? nodes : [];
    return {
      series: [
        { label: 'all', colour: 'blue', x: axisOf(run.progress, by), y: run.progress.speed },
        ...each.map((node, i) => ({
          label: node.name, colour: SERIES[i + 1], y: node.speeds,
          x: rising(node.at.map((at) => (by === 'time' ? at : place(run, { at, round: null }, by)))),
        })),
      ],
      marks: marksOf(run, by),
    };
  };
  const zero = (u, min, max) => [0, (max || 1) * 1.08];
  return [
    new Chart('Loss', { format: decimal, log: true, tick: (v) => String(+v.toPrecision(3)) }, two('loss')),
    new Chart('Accuracy', { format: (v) => percent(v), tick: percentTick }, two('accuracy')),
    new Chart('Samples per second', { format: rate, range: zero }, speed),
    new Chart('Cores in use', { format: (v) => v.toFixed(2), tick: (v) => String(+v.toPrecision(3)), range: zero },
      (by) => ({ series: machineSeries(run, by, 1, 1), note: few(run.machines.size) })),
    new Chart('Memory', { format: (v) => bytes(v), range: zero }, (by) => ({ series: machineSeries(run, by, 3, 1e6), note: few(run.machines.size) })),
    new Chart('Learning rate', { format: (v) => v.toPrecision(4), tick: (v) => String(+v.toPrecision(3)), range: zero },
      (by) => ({ series: [{ label: 'rate', colour: 'green', x: axisOf(run.progress, by), y: run.progress.lr }] })),
  ];
}

const ALARMS = ['lost', 'late', 'warning', 'failed'];

function logLine({ at, kind, text }) {
  return el('li', { class: ALARMS.includes(kind) ? 'alarm' : null }, el('time', {}, clock(at)), el('b', {}, kind), el('span', {}, text));
}

function details(run) {
  const { source } = run, rows = [];
  const row = (label, value) => value != null && value !== '' && rows.push(el('tr', {}, el('th', { scope: 'row' }, label), el('td', {}, String(value))));
  const s = source.state || {}, git = s.git || {}, host = s.host || {}, data = s.data || {}, f = run.started || {};
  row('folder', run.folder);
  row('model', f.model && `${f.model}, ${count(f.parameters)} parameters`);
  row('data', f.data && `${f.data}, ${count(f.train_samples)} training${f.validation_samples ? `, ${count(f.validation_samples)} validation` : ''} and ${count(f.test_samples)} test samples`);
  row('batch', f.workers && `${f.workers} × ${f.batch_size} = ${count(f.workers * f.batch_size)} samples a round`);
  row('seed', f.seed);
  row('version', s.version);
  row('commit', git.commit && git.commit + (git.dirty ? ', changed since' : ''));
  row('machine', [host.hostname, host.cpu, host.cores && `${host.cores} cores`, host.simd].filter(Boolean).join(', '));
  row('training data, SHA-256', data.train_sha256);
  row('test data, SHA-256', data.test_sha256);
  row('command', s.command && s.command.join(' '));
  const button = el('button', { type: 'button', onclick: () => {
    navigator.clipboard.writeText(source.resume).then(() => { button.textContent = 'copied'; }, () => {});
  } }, 'copy');
  return el('section', { class: 'wide card' }, el('header', {}, el('h2', {}, 'What it was made from')),
    el('table', { class: 'facts' }, el('tbody', {}, ...rows)),
    source.resume && el('p', { class: 'resume' }, 'To go on: ', el('code', {}, source.resume), button),
    source.run_file && el('details', {}, el('summary', {}, 'run file'), el('pre', { tabindex: 0 }, source.run_file)));
}

// The page of one run; gives what draws it again.
function showRun(main, run, home) {
  const charts = chartsOf(run), strips = new Strips(run);
  const title = el('h1', {}), pill = el('span', { class: 'pill', role: 'status' }), sentence = el('p', { class: 'verdict', 'aria-live': 'polite' });
  const bar = el('progress', { max: 1, 'aria-label': 'how far' }), numbers = el('div'), nodes = el('div', { class: 'scroll', tabindex: 0 });
  const nodesCard = el('section', { class: 'wide card' }, el('header', {}, el('h2', {}, 'Nodes')), nodes);
  const log = el('ol', { class: 'log', tabindex: 0, 'aria-label': 'events' });
  const axes = AXES.map((by) => el('label', {}, el('input', { type: 'radio', name: 'by', value: by, checked: by === 'round', onchange: () => {
    for (const chart of charts) { chart.by = by; chart.draw(); }
  } }), by));
  const legend = el('p', { class: 'marks' });
  const kinds = [['green', 'joined, back', ['joined', 'back']], ['red', 'lost', ['lost']], ['purple', 'target', ['target']],
    ['grey', 'resumed', ['resumed']], ['sky', 'chosen, shares', ['chosen', 'shares']], ['tick', 'checkpoint', ['checkpoint']]];
  main.replaceChildren(
    el('header', { class: 'top' }, home && el('a', { href: home, class: 'home' }, '← all runs'), el('div', { class: 'headline' }, title, pill), sentence, bar, numbers),
    el('div', { class: 'controls' }, el('fieldset', { class: 'switch' }, el('legend', {}, 'by'), ...axes), legend),
    el('div', { class: 'grid' }, ...charts.map((chart) => chart.root)),
    strips.root, nodesCard,
    el('section', { class: 'wide card' }, el('header', {}, el('h2', {}, 'Events')), log),
    details(run));
  let shown = 0;
  const draw = () => {
    const [kind, word] = state(run);
    title.textContent = run.started ? run.started.name : run.label;
    pill.className = `pill ${kind}`;
    pill.textContent = word;
    sentence.textContent = verdict(run);
    const now = run.now();
    bar.value = run.ended && run.summary.exit === 'done' ? 1 : now && run.started ? now.round / run.started.rounds : 0;
    bar.hidden = run.ended && kind === 'done';
    numbers.replaceChildren(tiles(run));
    for (const chart of charts) chart.draw();
    strips.draw();
    nodesCard.classList.toggle('empty', !run.nodes.size);
    nodes.replaceChildren(nodesTable(run));
    const has = new Set(run.marks.map((mark) => mark.kind));
    legend.replaceChildren(...kinds.filter(([, , names]) => names.some((name) => has.has(name)))
      .map(([name, text]) => el('span', { class: `mark-${name}` }, text)));
    for (; shown < run.log.length; shown++) log.prepend(logLine(run.log[shown]));
    document.title = `${run.ended ? '' : now && run.started ? percent(now.round / run.started.rounds, 0) + ' ' : ''}${title.textContent} – bonfire`;
  };
  return { draw, pill };
}

// Follows a run that goes on. The browser connects again by itself, and says after which line.
function follow(run, shown) {
  let due = false;
  const draw = () => { due = false; shown.draw(); };
  const source = new EventSource(`${run.source.live}?from=${run.source.line}`);
  source.onmessage = (message) => {
    run.take(JSON.parse(message.data));
    run.isFresh = true;
    if (!due) { due = true; setTimeout(draw, 200); }
  };
  source.onerror = () => {
    if (run.ended) { source.close(); return; }
    shown.pill.className = 'pill stopped';
    shown.pill.textContent = 'no connection';
  };
  source.onopen = () => shown.draw();
}

function start() {
  const given = JSON.parse(document.getElementById('data').textContent), main = document.getElementById('main');
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  let draw;
  const dress = () => { document.documentElement.dataset.scheme = scheme.matches ? 'dark' : 'light'; if (draw) draw(); };
  scheme.addEventListener('change', dress);
  dress();
  if (given.list) { draw = showList(main, given); return; }
  const runs = given.runs.map((source) => new Run(source));
  if (runs.length > 1) { draw = compare(main, runs, given.home); draw(); return; }
  const shown = showRun(main, runs[0], given.home);
  draw = shown.draw;
  draw();
  if (runs[0].source.live) follow(runs[0], shown);
}
