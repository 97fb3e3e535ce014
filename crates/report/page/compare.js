// Several runs: what differs, who was faster, and how speed grows with workers.

// The keys of a run file by their paths. Bonfire writes them itself, one a line.
function keysOf(text) {
  const keys = {}, path = [];
  for (const line of (text || '').split('\n')) {
    const found = /^( *)(?:- )?([\w.-]+):(?: (.*))?$/.exec(line);
    if (!found) continue;
    path.length = found[1].length / 2;
    path.push(found[2]);
    if (found[3]) keys[path.join('.')] = found[3];
  }
  return keys;
}

function differences(runs) {
  const keys = runs.map((run) => keysOf(run.source.run_file));
  const names = [...new Set(keys.flatMap(Object.keys))].filter((name) => name !== 'name');
  return names.map((name) => [name, keys.map((k) => k[name] ?? '–')]).filter(([, values]) => new Set(values).size > 1);
}

const speedOf = (run) => (run.summary ? run.summary.samples_per_s : run.now() ? run.now().speed : null);
const workersOf = (run) => (run.started ? run.started.workers : 0);

// The mean speed by workers, if the runs differ in their number.
function family(runs) {
  const speeds = new Map();
  for (const run of runs) if (workersOf(run) && speedOf(run)) list(speeds, workersOf(run)).push(speedOf(run));
  if (speeds.size < 2) return null;
  const mean = (all) => all.reduce((a, b) => a + b) / all.length;
  const rows = [...speeds].map(([workers, all]) => [workers, mean(all)]).sort((a, b) => a[0] - b[0]);
  const [least, speed] = rows[0];
  return rows.map(([workers, s]) => ({ workers, speedUp: s / speed * least, efficiency: s / speed * least / workers }));
}

function compare(main, runs, home) {
  const labels = runs.map((run) => run.label);
  const overlay = (part, key) => (by) => ({
    series: runs.slice(0, 16).map((run, i) => ({
      label: labels[i], colour: SERIES[i % SERIES.length], dashed: i >= SERIES.length,
      x: axisOf(run[part], by), y: run[part][key], points: part === 'tests',
    })),
  });
  const zero = (u, min, max) => [0, (max || 1) * 1.08];
  const tick = (v) => String(+v.toPrecision(3));
  const part = runs.every((run) => partOf(run) === 'validation') ? 'Validation' : 'Test';
  const charts = [
    new Chart(`${part} accuracy`, { format: (v) => percent(v), tick: percentTick }, overlay('tests', 'accuracy')),
    new Chart(`${part} loss`, { format: decimal, log: true, tick }, overlay('tests', 'loss')),
    new Chart('Training loss', { format: decimal, log: true, tick }, overlay('progress', 'loss')),
    new Chart('Samples per second', { format: rate, range: zero }, overlay('progress', 'speed')),
  ];
  const grown = family(runs);
  if (grown) {
    const x = grown.map((row) => row.workers);
    charts.push(new Chart('Speed-up', {
      format: (v) => `${v.toFixed(2)} ×`, range: zero, xLabel: 'workers', sync: 'workers', x: { range: [0, Math.max(...x) * 1.05] },
      note: `against ${x[0] === 1 ? 'one worker' : `${x[0]} workers, counted as ${x[0]}`}`,
    }, () => ({
      series: [
        { label: 'measured', colour: 'blue', x, y: grown.map((row) => row.speedUp), points: true },
        { label: 'ideal', colour: 'grey', x, y: x, dashed: true },
      ],
    })));
  }
  const axes = AXES.map((by) => el('label', {}, el('input', { type: 'radio', name: 'by', value: by, checked: by === 'round', onchange: () => {
    for (const chart of charts) { if (!chart.options.xLabel) chart.by = by; chart.draw(); }
  } }), by));
  main.replaceChildren(
    el('header', { class: 'top' }, home && el('a', { href: home, class: 'home' }, '← all runs'),
      el('div', { class: 'headline' }, el('h1', {}, `${runs.length} runs`)), el('p', { class: 'verdict' }, winner(runs))),
    el('section', { class: 'wide card' }, el('div', { class: 'scroll', tabindex: 0 }, compareTable(runs, labels, grown))),
    el('div', { class: 'controls' }, el('fieldset', { class: 'switch' }, el('legend', {}, 'by'), ...axes)),
    el('div', { class: 'grid' }, ...charts.map((chart) => chart.root)));
  document.title = `${runs.length} runs – bonfire`;
  return () => charts.forEach((chart) => chart.draw());
}

function winner(runs) {
  const best = (of) => runs.filter((run) => of(run) != null).sort((a, b) => of(b) - of(a))[0];
  const right = best((run) => (run.summary ? run.summary.best_accuracy : null)), fast = best(speedOf);
  const words = [];
  if (right) words.push(`${right.label} is best on ${partOf(right)} data with ${percent(right.summary.best_accuracy)}`);
  if (fast) words.push(`${fast.label} is fastest with ${rate(speedOf(fast))} samples/s`);
  return words.length ? `${words.join('; ')}.` : 'None of them has ended.';
}

function compareTable(runs, labels, grown) {
  const by = new Map((grown || []).map((row) => [row.workers, row])), first = speedOf(runs[0]);
  const at = (run, of) => { const row = by.get(workersOf(run)); return row ? of(row) : null; };
  const s = (of) => (run) => (run.summary ? of(run.summary) : '–');
  const rows = [
    ['end', (run) => state(run)[1]],
    ['workers', (run) => count(workersOf(run))],
    ['time', (run) => duration(run.last)],
    ['rounds', s((sum) => count(sum.rounds))],
    ['test accuracy', s((sum) => percent(sum.accuracy))],
    ['best accuracy', s((sum) => percent(sum.best_accuracy))],
    ['test loss', s((sum) => decimal(sum.eval_loss))],
    ['samples/s', (run) => rate(speedOf(run))],
    ['against the first', (run) => (first && speedOf(run) ? `${(speedOf(run) / first).toFixed(2)} ×` : '–')],
    grown && ['speed-up', (run) => at(run, (row) => `${row.speedUp.toFixed(2)} ×`) || '–'],
    grown && ['efficiency', (run) => at(run, (row) => percent(row.efficiency, 0)) || '–'],
    ['where the time went', (run) => run.whereTimeWent() || '–'],
    runs.some((run) => run.summary && run.summary.wh) && ['Wh', s((sum) => (sum.wh ? sum.wh.toFixed(3) : '–'))],
    ...differences(runs).map(([name, values]) => [name, (run, i) => values[i], true]),
  ].filter(Boolean);
  return el('table', { class: 'compare' },
    el('thead', {}, el('tr', {}, el('td'), ...labels.map((label, i) => el('th', { scope: 'col', class: `key-${SERIES[i % SERIES.length]}` }, label)))),
    el('tbody', {}, ...rows.map(([name, of, isKey]) =>
      el('tr', {}, el('th', { scope: 'row', class: isKey ? 'code' : null }, name), ...runs.map((run, i) => el('td', {}, of(run, i)))))));
}

// The runs of a folder. Asked for again while the page is open.
function showList(main, given) {
  const body = el('tbody'), chosen = new Set(), button = el('button', { type: 'button', disabled: true, onclick: () => {
    location.href = `compare?${[...chosen].map((name) => `run=${encodeURIComponent(name)}`).join('&')}`;
  } }, 'compare');
  const heads = ['', 'run', 'model', 'data', 'workers', 'accuracy', 'samples/s', 'time', 'end'];
  main.replaceChildren(
    el('header', { class: 'top' }, el('div', { class: 'headline' }, el('h1', {}, 'Runs'), el('span', { class: 'note' }, given.folder), button)),
    el('section', { class: 'wide card' }, el('div', { class: 'scroll', tabindex: 0 },
      el('table', { class: 'list' }, el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))), body))));
  const row = (run) => {
    const s = run.summary || {}, mark = () => { button.disabled = chosen.size < 2; };
    const box = el('input', { type: 'checkbox', 'aria-label': `compare ${run.label}`, checked: chosen.has(run.label),
      onchange: (e) => { if (e.target.checked) chosen.add(run.label); else chosen.delete(run.label); mark(); } });
    const cells = [box, el('a', { href: `run/${encodeURIComponent(run.label)}/` }, run.label), s.model || '–', s.data || '–', s.workers ?? '–',
      percent(s.accuracy), rate(s.samples_per_s), duration(s.seconds), run.end];
    return el('tr', {}, ...cells.map((cell) => el('td', {}, cell instanceof Node ? cell : String(cell))));
  };
  let shown;
  const draw = (runs) => {
    if (shown === JSON.stringify(runs)) return; // Whoever is in the table stays there.
    shown = JSON.stringify(runs);
    body.replaceChildren(...runs.map(row));
  };
  draw(given.list);
  document.title = 'runs – bonfire';
  setInterval(() => fetch('list.json').then((answer) => answer.json()).then((news) => draw(news.list), () => {}), 5000);
  return () => {};
}

start();
