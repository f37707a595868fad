'use strict';
// The page of idemsk local.

let run = null; // the last state of the run
let view = null; // what is shown: {update(run)}

// paced returns a function that is true at most once in a time, in milliseconds. A view loads its list as often, because an update has a new state 4 times a second.
function paced(every) {
  let next = 0;
  return () => Date.now() >= next && (next = Date.now() + every, true);
}

const can = action => run && run.actions && run.actions.includes(action);

// prefixOf returns what all keys begin with, up to a #; '' if it is not worth leaving out.
function prefixOf(keys) {
  if (keys.length < 2) return '';
  let n = 0;
  while (n < keys[0].length && keys.every(k => k[n] === keys[0][n])) n++;
  return keys[0].slice(0, keys[0].lastIndexOf('#', n - 1) + 1);
}

// middle leaves out the middle of a long key: keys often differ at their ends.
const middle = key => key.length > 72 ? key.slice(0, 40) + '…' + key.slice(-30) : key;
const link = (key, text) => h('a', {href: '#/record/' + encodeURIComponent(key)}, text || key);

// ---- Topic

function topicView() {
  const numbers = h('dl', {class: 'facts'}), chart = h('div', {class: 'card'}), rows = h('tbody'), error = h('p', {class: 'err', hidden: true});
  main.append(h('h1', {}, 'Topic'), numbers, h('h2', {}, 'Records a second'), chart, h('h2', {}, 'Partitions'),
    h('div', {class: 'card scroll', tabindex: 0, role: 'region', 'aria-label': 'Partitions'},
      h('table', {}, head('partition', '#committed', '#end', '#lag', '#in flight'), rows)), error);
  let drawn = '';
  return {update() {
    facts(numbers, run.counts);
    patch(rows, run.partitions, p => p.number, () => h('tr', {}, h('td'), h('td', {class: 'n'}), h('td', {class: 'n'}), h('td', {class: 'n'}), h('td', {class: 'n'})),
      (row, p) => [p.number, p.committed, p.end, p.lag, p.inFlight].forEach((v, i) => set(row.children[i], count(v))));
    error.hidden = !run.lastError;
    set(error, 'Last error: ' + run.lastError);
    const now = run.rates.join();
    if (now !== drawn) { drawn = now; chart.replaceChildren(rateChart(run.rates, Math.max(280, chart.clientWidth - 42))); }
  }};
}

function rateChart(rates, width) {
  const height = 150, bottom = 128, most = Math.max(1, ...rates), step = (width - 8) / 119, y = v => bottom - v / most * 104;
  const points = rates.map((v, i) => [(width - 4 - (rates.length - 1 - i) * step).toFixed(1), y(v).toFixed(1)]);
  const line = points.map(p => p.join(',')).join(' ');
  return s('svg', {width, height, role: 'img', 'aria-label': `Records a second in the last 2 minutes: now ${rates.at(-1) || 0}, at most ${Math.max(0, ...rates)}`},
    points.length > 1 ? s('polygon', {class: 'area', points: `${points[0][0]},${bottom} ${line} ${points.at(-1)[0]},${bottom}`}) : null,
    s('line', {class: 'axis', x1: 0, x2: width, y1: bottom + .5, y2: bottom + .5}),
    points.length > 1 ? s('polyline', {class: 'curve', points: line}) : null,
    s('text', {x: 0, y: 14}, `${count(Math.max(0, ...rates))}/s at most`), s('text', {x: 0, y: height - 4}, '2 minutes ago'),
    s('text', {x: width - 2, y: height - 4, 'text-anchor': 'end'}, 'now'));
}

// ---- Records

function recordsView() {
  const search = h('input', {type: 'search', placeholder: 'Part of a key', 'aria-label': 'Part of a key', oninput: () => load()});
  const state = h('select', {'aria-label': 'State', onchange: () => load()}, h('option', {value: ''}, 'All states'), Object.keys(chips).map(c => h('option', {value: c}, c)));
  const numbers = h('dl', {class: 'facts'}), rows = h('tbody'), foot = h('p', {class: 'muted'}), shared = h('p', {class: 'muted above'});
  const empty = h('p', {class: 'lead'});
  main.append(h('h1', {}, 'Records'), h('p', {class: 'lead'}, 'Each record has an idempotency key, and each key one entry in the store. Select a key to see what happened to it.'),
    numbers, h('div', {class: 'bar'}, search, state), shared,
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Keys'}, h('table', {}, head('key', 'state', 'changed', '#attempts', '#taken over', '#refused', '#replayed', 'result or failure'), rows)), empty, foot);
  const due = paced(500);
  let seen = -1, busy = false, again = false;
  async function load() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const got = await get(`/api/keys?has=${encodeURIComponent(search.value)}&state=${encodeURIComponent(state.value)}`);
      facts(numbers, Object.keys(chips).map(c => ({name: c, value: got.states[c] || 0, bad: c === 'failed' && got.states[c] > 0})));
      const prefix = prefixOf(got.keys.map(k => k.key));
      set(shared, prefix ? `All these keys begin with ${prefix}` : '');
      patch(rows, got.keys, k => k.key, k => h('tr', {}, h('td', {class: 'key', title: k.key}, link(k.key)), h('td', {}, chip('', '')), h('td', {class: 'when'}), h('td', {class: 'n'}), h('td', {class: 'n'}),
        h('td', {class: 'n'}), h('td', {class: 'n'}), h('td', {class: 'out'})), (row, k) => {
        const c = row.children[1].firstElementChild;
        c.className = 'chip ' + chips[k.state];
        c.dataset.until = k.until; c.dataset.state = k.state;
        countdown(c);
        set(row.firstElementChild.firstElementChild, middle(k.key.slice(prefix.length) || k.key));
        [time(k.updated), k.attempts, k.steals || '', k.refused || '', k.replays || '', k.outcome].forEach((v, i) => set(row.children[i + 2], v));
      });
      set(empty, got.keys.length ? '' : run.notice ? '' : got.selected === 0 && (search.value || state.value) ? 'No key matches the search.' : 'There are no keys yet: produce a record, on the page Faults or with idemsk produce.');
      set(foot, (got.selected > got.keys.length ? `The ${got.keys.length} of ${count(got.selected)} keys that changed last. ` : '') +
        (got.forgotten ? `The history of ${plural(got.forgotten, 'older key', 'older keys')} is not kept any more; idemsk get KEY shows their entry.` : ''));
    } catch (e) { set(empty, e.message); }
    busy = false;
    if (again) { again = false; load(); }
  }
  return {update() { if (run.keys !== seen && due()) { seen = run.keys; load(); } }};
}

// countdown shows the time that is left of a lease, or of the wait for another attempt.
function countdown(c) {
  const left = c.dataset.until / 1e6 - Date.now() / 1000;
  const held = c.dataset.state === 'in flight' || c.dataset.state === 'waiting';
  if (c.dataset.state === 'in flight' && left <= 0) { set(c, 'lease over'); c.className = 'chip over'; return; }
  set(c, c.dataset.state + (held && left > 0 ? (c.dataset.state === 'waiting' ? ', next attempt in ' : ', lease ends in ') + left.toFixed(1) + ' s' : ''));
}
setInterval(() => document.querySelectorAll('.chip[data-until]').forEach(countdown), 200);

// ---- The history of a key

function recordView(key) {
  const numbers = h('dl', {class: 'facts'}), box = h('div', {class: 'card history'}), note = h('p', {class: 'muted'}), payload = h('div');
  main.append(h('p', {}, h('a', {href: '#/records'}, 'Records')), h('h1', {class: 'mono clamp', title: key}, key), numbers, box, note, payload);
  const due = paced(500);
  let seen = -1, last = null, drawn = '';
  const draw = () => { if (last) drawHistory(box, last); };
  async function load() {
    try {
      const got = await get('/api/key?key=' + encodeURIComponent(key));
      const k = got.key;
      facts(numbers, [{name: 'state', value: k.state, bad: k.state === 'failed'}, {name: 'attempts', value: k.attempts}, {name: 'taken over', value: k.steals},
        {name: 'refused writes', value: k.refused}, {name: 'replays', value: k.replays}, {name: 'changed', value: moment(k.updated)}, {name: 'record', value: k.source}, {name: 'fencing token', value: short(k.token)}]);
      const dd = numbers.firstElementChild.lastElementChild;
      dd.dataset.until = k.until; dd.dataset.state = k.state; dd.className = 'word chip ' + chips[k.state];
      countdown(dd);
      set(note, got.dropped ? `${plural(got.dropped, 'older event is', 'older events are')} not kept.` : '');
      const now = JSON.stringify(got.record);
      if (now !== drawn) { drawn = now; payload.replaceChildren(...recordBlocks(got.record)); }
      last = got;
      draw();
    } catch (e) { set(note, e.message); }
  }
  return {update() { if (run.keys !== seen && due()) { seen = run.keys; load(); } }, resize: draw};
}

// rowsOf returns the events of a history, with the ends of leases between them.
function rowsOf(history) {
  const rows = [];
  let lease = 0;
  for (const e of history.events) {
    if (lease && e.at > lease && ['stolen', 'waited', 'delivered', 'resumed', 'fenced'].includes(e.kind)) {
      rows.push({kind: 'over', at: lease, process: 0});
      lease = 0;
    }
    rows.push(e);
    if (['claimed', 'stolen', 'extended'].includes(e.kind)) lease = e.until;
    if (['completed', 'failed', 'released', 'deleted'].includes(e.kind)) lease = 0;
  }
  if (lease && lease < Date.now() * 1000) rows.push({kind: 'over', at: lease, process: 0});
  return rows;
}

// words says what an event means: a sentence, and its details.
function words(e, before) {
  const who = e.process ? `Process ${e.process}` : 'The owner';
  const token = e.token ? `fencing token ${short(e.token)}` : '';
  const times = e.times > 1 ? `, ${e.times} times` : '';
  switch (e.kind) {
    case 'delivered': return [`${e.process ? who : 'A process'} gets the record`, h('a', {href: '#/invocation/' + e.invocation}, `invocation ${e.invocation}`), `, batch ${e.batch}`];
    case 'claimed': return [`${who} claims the key`, `${token}, attempt ${e.attempts}, lease of ${span(e.until - e.at)}`];
    case 'stolen': return [`${who} takes the key over`, `${token}, attempt ${e.attempts}: writes with an older token are refused from here on`];
    case 'waited': return [`The claim of process ${e.process || '?'} is refused${times}`, e.until && e.at > e.until ? 'the lease is over: the next claim may take the key over' : 'another process has the key until its lease is over'];
    case 'extended': return [`${who} extends its lease${times}`, `to ${time(e.until)}`];
    case 'released': return [`The attempt of process ${e.process || '?'} fails`, `${e.note || 'no reason is stored'}; the next attempt ${e.until > e.at ? 'in ' + span(e.until - e.at) : 'may begin'}`];
    case 'completed': return [`${who} completes the key`, `the result is stored${e.note ? ': ' + cut(e.note, 120) : ''}`];
    case 'failed': return [`${who} fails the key`, `${e.note}; a dead letter was sent`];
    case 'fenced': return [`A write of process ${e.process || '?'} is refused${times}`, `its token ${short(e.token)} is older than that of the entry: what it did is not committed`];
    case 'replayed': return [`${e.process ? who : 'A process'} gets the stored result${times}`, 'the handler is not called again'];
    case 'repeated': return before && before.key.state === 'failed' ? [`${who} finds the key failed${times}`, 'the handler is not called, and no second dead letter is sent'] : [`${who} repeats its write`, 'the entry has it already'];
    case 'died': return [`Process ${e.process || '?'} dies`, !e.until ? 'before its invocation returned; the entry is settled, and the next delivery finds that' : 'it can\'t give the key back: the key is free when the lease is over'];
    case 'paused': return [`Process ${e.process || '?'} is paused`, 'as by a frozen sandbox or a long garbage collection; its lease runs on'];
    case 'resumed': return [`Process ${e.process || '?'} continues`, 'it does not know that its lease is over'];
    case 'over': return ['The lease is over', 'another process may take the key over, and not before'];
    case 'deleted': return ['The entry is deleted', ''];
  }
  return [e.kind, ''];
}

// drawHistory draws the events as a sequence: the event source, each process, and the entry in the store.
function drawHistory(box, history) {
  const rows = rowsOf(history), narrow = box.clientWidth < 640;
  const processes = [...new Set(rows.map(e => e.process).filter(Boolean))].sort((a, b) => a - b);
  const columns = 2 + Math.max(1, processes.length);
  const gap = narrow ? Math.max(30, Math.min(52, (box.clientWidth * .5) / columns)) : Math.max(64, Math.min(120, 520 / columns));
  const left = narrow ? 26 : 66, top = narrow ? 44 : 52, width = left + gap * (columns - 1) + (narrow ? 22 : 74);
  const x = {source: left, store: left + gap * (columns - 1)};
  processes.forEach((p, i) => x[p] = left + gap * (i + 1));
  const first = rows.length ? rows[0].at : 0;
  const list = h('ol', {}, rows.map(e => {
    const [what, ...why] = words(e, history);
    return h('li', {class: e.kind}, h('p', {}, h('span', {class: 'at', title: '+' + span(e.at - first)}, time(e.at)), h('b', {}, what)), h('p', {class: 'muted'}, why));
  }));
  list.style.margin = `${top}px 0 0 ${width}px`;
  box.replaceChildren(list);
  const lane = e => x[e.process] || left + gap, y = i => list.children[i].offsetTop + list.children[i].offsetHeight / 2, bottom = top + list.offsetHeight;
  const svg = s('svg', {width, height: bottom, role: 'img', 'aria-label': `The history of the key as a drawing. The list has the same ${rows.length} events in words.`});
  const title = (at, wide, tight) => svg.append(s('text', {class: 'heads', x: at, y: top - 18, 'text-anchor': 'middle'}, narrow ? tight : wide));
  title(x.source, 'Kafka', 'Kafka');
  processes.forEach(p => title(x[p], 'process ' + p, 'p' + p));
  title(x.store, 'entry', 'entry');
  lifelines(svg, rows, processes, x, y, top, bottom);
  band(svg, rows, x.store, y, top, bottom);
  rows.forEach((e, i) => drawEvent(svg, e, {from: x.source, lane: lane(e), store: x.store, y: y(i)}));
  box.prepend(svg);
}

// lifelines draws a line for each column; that of a process ends when it dies. While a process owns the key, its line is a bar.
function lifelines(svg, rows, processes, x, y, top, bottom) {
  svg.append(s('line', {class: 'life', x1: x.source, x2: x.source, y1: top - 8, y2: bottom}));
  for (const p of processes) {
    const of = rows.map((e, i) => [e, i]).filter(([e]) => e.process === p);
    const died = of.find(([e]) => e.kind === 'died');
    const end = died ? y(died[1]) : bottom;
    svg.append(s('line', {class: 'life', x1: x[p], x2: x[p], y1: top - 8, y2: end}));
    let from = null, stopped = false;
    const bar = to => { if (from !== null) svg.append(s('rect', {class: 'work' + (stopped ? ' stopped' : ''), x: x[p] - 5, width: 10, y: from, height: Math.max(2, to - from), rx: 2})); };
    for (const [e, i] of of) {
      if (['claimed', 'stolen'].includes(e.kind)) { from = y(i); stopped = false; }
      if (e.kind === 'paused') { bar(y(i)); from = y(i); stopped = true; }
      if (e.kind === 'resumed') { bar(y(i)); from = y(i); stopped = false; }
      if (['completed', 'failed', 'released', 'fenced', 'died'].includes(e.kind)) { bar(y(i)); from = null; stopped = false; }
    }
    bar(bottom);
  }
}

// band draws the state of the entry over time.
function band(svg, rows, at, y, top, bottom) {
  const state = {claimed: 'held', stolen: 'held', completed: 'completed', failed: 'failed', released: 'waiting', over: 'over', deleted: ''};
  let now = '', from = 0;
  const draw = to => { if (now) svg.append(s('rect', {class: 'band ' + now, x: at - 6, width: 12, y: from, height: to - from})); };
  svg.append(s('line', {class: 'life', x1: at, x2: at, y1: top - 8, y2: bottom}));
  rows.forEach((e, i) => { if (e.kind in state) { draw(y(i)); now = state[e.kind]; from = y(i); } });
  draw(bottom);
}

function drawEvent(svg, e, at) {
  const style = {stolen: 'stolen', completed: 'completed', failed: 'failed', fenced: 'fenced', released: 'stolen', delivered: 'soft', extended: 'soft', waited: 'soft', replayed: 'completed', repeated: 'soft'}[e.kind] || '';
  const headStyle = style === 'fenced' ? 'failed' : style;
  const arrow = (from, to, dashed) => {
    const back = to < from, tip = to + (back ? 7 : -7);
    svg.append(s('line', {class: `arrow ${style}${dashed ? ' dashed' : ''}`, x1: from + (back ? -7 : 6), x2: tip, y1: at.y, y2: at.y}),
      s('path', {class: 'head ' + headStyle, d: `M${tip + (back ? -1 : 1)},${at.y} l${back ? 8 : -8},-4.5 v9 z`}));
  };
  const cross = (cx, r) => svg.append(s('path', {class: 'cross', d: `M${cx - r},${at.y - r} l${2 * r},${2 * r} m0,${-2 * r} l${-2 * r},${2 * r}`}));
  switch (e.kind) {
    case 'delivered': arrow(at.from, at.lane); break;
    case 'replayed': arrow(at.store, at.lane, true); break;
    case 'fenced': case 'waited': case 'repeated':
      svg.append(s('line', {class: `arrow ${style} dashed`, x1: at.lane + 6, x2: at.store - 18, y1: at.y, y2: at.y}));
      cross(at.store - 13, 5);
      break;
    case 'died': cross(at.lane, 7); break;
    case 'paused': case 'resumed':
      svg.append(s('circle', {class: 'sign', cx: at.lane, cy: at.y, r: 9}),
        s('path', {class: 'glyph', d: e.kind === 'paused' ? `M${at.lane - 3.5},${at.y - 4} h2.5 v8 h-2.5 z m4.5,0 h2.5 v8 h-2.5 z` : `M${at.lane - 2.5},${at.y - 4.5} l7,4.5 l-7,4.5 z`}));
      break;
    case 'over': svg.append(s('path', {class: 'sign', d: `M${at.store},${at.y - 8} l8,8 l-8,8 l-8,-8 z`})); break;
    case 'deleted': cross(at.store, 6); break;
    default: arrow(at.lane, at.store);
  }
}

// ---- Invocations

function invocationsView() {
  const chart = h('div', {class: 'card'}), rows = h('tbody'), foot = h('p', {class: 'muted'});
  main.append(h('h1', {}, 'Invocations'), h('p', {class: 'lead'}, 'Each bar is a call of the function with a batch: green if it succeeded, red if it failed, amber if its process was killed on purpose. Time without an invocation is shortened.'),
    chart, h('h2', {}, 'The last 100, newest first'),
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Invocations'}, h('table', {}, head('#number', 'batch', '#records', 'process', 'outcome', 'begun', '#took', 'what happened'), rows)), foot);
  const due = paced(500);
  let seen = -1, last = null;
  const draw = () => { if (last) chart.replaceChildren(timeline(last.slice(0, 80).reverse(), Math.max(280, chart.clientWidth - 42))); };
  async function load() {
    const got = await get('/api/invocations').catch(e => { set(foot, e.message); });
    if (!got) return;
    last = got.invocations;
    draw();
    patch(rows, last.slice(0, 100), i => i.number, i => h('tr', {}, h('td', {class: 'n'}, h('a', {href: '#/invocation/' + i.number}, String(i.number))), h('td', {class: 'key'}), h('td', {class: 'n'}),
      h('td'), h('td', {}, chip('', '')), h('td', {class: 'when'}), h('td', {class: 'n'}), h('td', {class: 'out'})), (row, i) => {
      const c = row.children[4].firstElementChild;
      c.className = 'chip ' + i.outcome;
      set(c, i.outcome);
      set(row.children[1], i.batch); set(row.children[2], count(i.records)); set(row.children[3], i.process || '–');
      set(row.children[5], time(i.begun)); set(row.children[6], i.took < 0 ? '' : span(i.took));
      set(row.children[7], [i.try > 1 ? `delivery ${i.try} of the batch` : '', ...i.tags, i.error].filter(Boolean).join(', '));
    });
    set(foot, got.dropped ? `${plural(got.dropped, 'older invocation is', 'older invocations are')} not kept any more.` : '');
  }
  return {update() { if (run.invocations !== seen && due()) { seen = run.invocations; load(); } }, resize: draw};
}

// timeline draws invocations, the oldest first, with a lane for each process.
function timeline(list, width) {
  const lanes = [...new Set(list.map(i => i.process))].sort((a, b) => a - b), left = 78, high = 26;
  const now = Date.now() * 1000, end = i => i.took < 0 ? Math.max(now, i.begun + 1) : i.begun + Math.max(i.took, 1);
  // Time runs only while an invocation does: a pause has the width of a gap.
  const stops = [];
  let busyUntil = -1, total = 0;
  for (const i of [...list].sort((a, b) => a.begun - b.begun)) {
    if (i.begun > busyUntil) stops.push({from: i.begun, to: end(i)}); else stops.at(-1).to = Math.max(stops.at(-1).to, end(i));
    busyUntil = stops.at(-1).to;
  }
  for (const p of stops) { p.x = total; total += p.to - p.from; }
  const gap = Math.min(8, (width - left) / 3 / Math.max(1, stops.length)), scale = (width - left - 6 - gap * (stops.length - 1)) / Math.max(1, total);
  const x = t => { const n = stops.findLastIndex(p => p.from <= t), p = stops[n]; return left + n * gap + (p.x + t - p.from) * scale; };
  const svg = s('svg', {width, height: lanes.length * high + 8, role: 'group', 'aria-label': 'Invocations over time'});
  lanes.forEach((p, n) => svg.append(s('text', {x: 0, y: n * high + 19}, p ? 'process ' + p : 'process ?'), s('line', {class: 'axis', x1: left, x2: width, y1: (n + 1) * high + 3.5, y2: (n + 1) * high + 3.5})));
  for (const i of list) {
    const from = x(i.begun);
    svg.append(s('a', {class: 'tl ' + i.outcome, href: '#/invocation/' + i.number, 'aria-label': `Invocation ${i.number}: ${i.batch}, ${i.outcome}`},
      s('rect', {x: from.toFixed(1), y: lanes.indexOf(i.process) * high + 7, width: Math.max(3, x(end(i)) - from - 1).toFixed(1), height: high - 9, rx: 2}),
      s('title', {}, `${i.number}: ${i.batch}, ${plural(i.records, 'record', 'records')}, ${i.outcome}${i.took < 0 ? '' : ', ' + span(i.took)}`)));
  }
  return svg;
}

// recordBlocks shows the record of a key.
function recordBlocks(r) {
  if (!r) return [h('p', {class: 'muted'}, 'The record is not kept: its invocation is an older one.')];
  return [h('h2', {}, 'Record ' + r.place), h('p', {class: 'muted above'}, `Kafka key ${r.kafkaKey || 'none'}${r.at ? ', written ' + moment(r.at) : ''}`),
    r.headers.length ? h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Headers'}, h('table', {}, head('header', 'value'),
      h('tbody', {}, r.headers.map(x => h('tr', {}, h('td', {class: 'key'}, x.name), h('td', {class: 'key'}, x.value)))))) : h('p', {class: 'muted'}, 'It has no headers.'), block('Value', pretty(r.value))];
}

// What became of a record in an invocation, by the last event of its key, and the colour.
const became = {completed: ['completed', 'completed'], failed: ['failed for good', 'failed'], released: ['attempt failed', 'waiting'], replayed: ['duplicate, stored result', 'completed'], duplicate: ['duplicate in its batch', 'flight'], repeated: ['refused: settled before', 'failed'],
  waited: ['another process has the key', 'waiting'], fenced: ['completion refused', 'failed'], died: ['process ended', 'failed'], claimed: ['running', 'running'], stolen: ['running, taken over', 'running'],
  extended: ['running', 'running'], paused: ['paused', 'waiting'], resumed: ['running', 'running'], delivered: ['delivered', 'flight'], deleted: ['entry deleted', 'waiting']};

function outcomesTable(i) {
  if (!i.outcomes.length) return [];
  const prefix = prefixOf(i.outcomes.map(r => r.key).filter(Boolean));
  return [h('h2', {}, 'Records'), prefix ? h('p', {class: 'muted above'}, `All these keys begin with ${prefix}`) : '', h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Records'}, h('table', {}, head('record', 'key', 'outcome', 'value'),
    h('tbody', {}, i.outcomes.map(r => h('tr', {}, h('td', {class: 'when'}, r.place), h('td', {class: 'key', title: r.key}, r.key ? link(r.key, middle(r.key.slice(prefix.length) || r.key)) : ''),
      h('td', {}, r.outcome ? chip(...became[r.outcome] || [r.outcome, 'waiting']) : 'no request for its key'), h('td', {class: 'out', title: r.value}, r.value)))))),
    i.records > i.outcomes.length ? h('p', {class: 'muted'}, `The first ${i.outcomes.length} of ${count(i.records)}.`) : ''];
}

function invocationView(number) {
  const body = h('div', {}, h('p', {class: 'muted'}, 'Loading …'));
  main.append(h('p', {}, h('a', {href: '#/invocations'}, 'Invocations')), h('h1', {}, 'Invocation ' + number), body);
  let running = true;
  async function load() {
    try {
      const i = await get('/api/invocation?number=' + encodeURIComponent(number));
      running = i.took < 0;
      const numbers = h('dl', {class: 'facts'});
      facts(numbers, [{name: 'outcome', value: i.outcome, bad: i.outcome === 'failed'}, {name: 'batch', value: i.batch}, {name: 'records', value: i.records},
        {name: 'process', value: i.process ? String(i.process) : 'unknown'}, {name: 'took', value: running ? 'running' : span(i.took)}, {name: 'begun', value: moment(i.begun)}]);
      const again = (action, text) => can(action) && h('button', {onclick: () => act({action, invocation: i.number})}, text);
      body.replaceChildren(numbers, h('div', {class: 'bar'}, again('redeliver', 'Deliver this batch again') || '', again('twice', 'Deliver it to two processes at once') || ''),
        i.error ? h('p', {class: 'err'}, i.error) : '', i.cut ? h('p', {class: 'muted'}, 'Long texts are cut.') : '', ...outcomesTable(i),
        block('Answer', pretty(i.answer) || 'none'), block('Log', i.log.join('\n') || 'nothing was printed'), block('Event', pretty(i.event)));
    } catch (e) { running = false; body.replaceChildren(h('p', {}, e.message)); }
  }
  return {update() { if (running) load(); }};
}

// ---- Dead letters

function lettersView() {
  const rows = h('tbody'), all = h('button', {class: 'main', onclick: () => send([])}, 'Redrive all'), some = h('button', {onclick: () => send(chosen())}, 'Redrive the selected ones');
  const empty = h('p', {class: 'lead'}), bar = h('div', {class: 'bar', hidden: true}, all, some);
  const chosen = () => [...rows.querySelectorAll('input:checked')].map(i => i.value);
  const ready = () => { some.disabled = chosen().length === 0; };
  main.append(h('h1', {}, 'Dead letters'), h('p', {class: 'lead'}, 'Records that failed for good, with the reason. Redriving produces a record to its topic again; its key lets it in once more.'), bar,
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Dead letters'}, h('table', {}, head('select', 'key', 'record', 'failed', '#attempts', 'failure', 'value'), rows)), empty);
  rows.addEventListener('change', ready);
  const due = paced(1000);
  let seen = -1, busy = false;
  async function send(letters) {
    if (busy) return;
    busy = all.disabled = some.disabled = true;
    say('Redriving …');
    await act({action: 'redrive', letters});
    busy = all.disabled = false;
    load();
  }
  async function load() {
    const got = await get('/api/letters').catch(e => { set(empty, e.message); });
    if (!got) return;
    patch(rows, got, l => l.id, l => h('tr', {}, h('td', {}, h('input', {type: 'checkbox', value: l.id, 'aria-label': 'Select ' + l.key})), h('td', {class: 'key', title: l.key}, l.key ? link(l.key, middle(l.key)) : ''), h('td', {class: 'when'}, l.source), h('td', {class: 'when'}, l.at > 0 ? time(l.at) : ''),
      h('td', {class: 'n'}, String(l.attempts)), h('td', {}, h('b', {}, l.code), ' ', l.message), h('td', {class: 'out', title: l.value}, l.value)), () => {});
    bar.hidden = !got.length || !can('redrive');
    set(empty, got.length ? '' : 'There are none.');
    ready();
  }
  return {update() { if (run.keys !== seen && !busy && due()) { seen = run.keys; load(); } }};
}

// ---- Ledger

const money = n => (n / 100).toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2});
const sideStates = {delivering: ['flight', 'being delivered'], exact: ['ok', 'exact'], wrong: ['failed', 'wrong']};

function ledgerView() {
  const sides = h('div', {class: 'sides'}), off = h('div'), note = h('p', {class: 'lead'});
  main.append(h('h1', {}, 'Ledger'), h('p', {class: 'lead'}, 'What the payments of the topic require, computed from the records alone, and what the function has booked.'), note, sides, off);
  const due = paced(1000);
  let busy = false, drawn = '';
  function draw(verdict) {
    const now = JSON.stringify(verdict);
    if (now === drawn) return;
    drawn = now;
    set(note, verdict.why ? `It is not verified in this run: ${verdict.why}.` : '');
    sides.replaceChildren(...verdict.sides.map(sideCard));
    off.replaceChildren(...offTable(verdict.sides));
  }
  async function load() {
    busy = true;
    try { draw(await get('/api/verdict')); } catch (e) { if (!run.ended) set(note, e.message); drawn = ''; }
    busy = false;
  }
  return {update() {
    if (run.verdict) draw(run.verdict); else if (!run.ended && !busy && due()) load();
  }};
}

function sideCard(side) {
  const [kind, state] = side.repeats && side.state === 'exact' ? ['waiting', 'explained'] : sideStates[side.state], differs = side.sums.some(m => m.off);
  const open = side.open ? `${plural(side.open, 'record is', 'records are')} not committed.` : 'An invocation is running.';
  const said = !side.records ? 'There are no records yet.' : side.state === 'delivering' ? open + ' What is missing may follow.' : side.state === 'wrong' ?
    plural(side.problemsAll || side.offAll, side.problemsAll ? 'check failed.' : 'account is wrong.', side.problemsAll ? 'checks failed.' : 'accounts are wrong.') :
    side.repeats ? `${plural(side.repeats, 'booking was', 'bookings were')} repeated, each because its process was killed or lost its claim before the completion. Nothing else differs.` : 'Each payment is booked once, to the cent.';
  return h('section', {class: 'card', 'aria-label': side.name}, h('div', {class: 'bar split'}, h('h2', {}, side.name), chip(state, kind)),
    h('table', {class: 'sums'}, head('currency', '#must be', '#is', '#difference'), h('tbody', {}, side.sums.map(m => h('tr', {}, h('th', {scope: 'row'}, m.currency),
      h('td', {class: 'n'}, money(m.expected)), h('td', {class: 'n'}, money(m.found)), h('td', {class: 'n ' + (m.off && side.state === 'wrong' ? 'off' : '')}, money(m.off)))))),
    h('p', {class: side.state === 'wrong' ? 'off' : ''}, said), h('p', {class: 'muted'}, `${plural(side.records, 'record', 'records')}, delivered ${plural(side.delivered, 'time', 'times')}` +
      `${side.kills ? `, ${plural(side.kills, 'process', 'processes')} killed` : ''}; ${plural(side.payments, 'payment', 'payments')} to book${differs && side.state !== 'wrong' ? `; ${plural(side.offAll, 'account differs', 'accounts differ')}` : ''}.`),
    side.problems.length ? h('ul', {class: 'problems'}, side.problems.slice(0, 10).map(p => h('li', {}, p)), side.problemsAll > 10 ? h('li', {}, `and ${count(side.problemsAll - 10)} more`) : '') : '');
}

// offTable lists the accounts that differ, with the balances of each side.
function offTable(sides) {
  const accounts = new Map();
  sides.forEach((side, i) => side.off.forEach(b => { if (!accounts.has(b.account)) accounts.set(b.account, {expected: b.expected, found: []}); accounts.get(b.account).found[i] = b.found; }));
  if (!accounts.size) return [];
  const all = Math.max(...sides.map(s => s.offAll));
  return [h('h2', {}, 'Accounts that differ'), h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Accounts that differ'}, h('table', {}, head('account', '#must be', ...sides.map(s => '#' + s.name)),
    h('tbody', {}, [...accounts].sort(([a], [b]) => a < b ? -1 : 1).map(([account, b]) => h('tr', {}, h('td', {class: 'key'}, account), h('td', {class: 'n'}, money(b.expected)),
      sides.map((side, i) => { const found = b.found[i] ?? b.expected; return h('td', {class: 'n ' + (found !== b.expected && side.state === 'wrong' ? 'off' : '')}, money(found)); }))))))
    , all > accounts.size ? h('p', {class: 'muted'}, `The first ${accounts.size} of ${count(all)}.`) : ''];
}

// ---- Faults

function faultsView() {
  const grid = h('div', {class: 'grid'});
  main.append(h('h1', {}, 'Faults'), h('p', {class: 'lead'}, 'Produce a record, break something, and look at the history of its key. A kill and a pause hit the process that claims a key next.'), grid);
  const card = (action, name, text, button) => can(action) && grid.append(h('section', {class: 'card'}, h('h2', {}, name), h('p', {}, text), button || h('button', {onclick: () => act({action})}, name)));
  let drawn = '';
  return {update() {
    const now = run.actions.join();
    if (now === drawn) { const b = grid.querySelector('#mapping'); if (b) mapping(b); return; }
    drawn = now;
    grid.replaceChildren();
    const n = Math.floor(Math.random() * 1e6), value = JSON.stringify({paymentId: 'page-' + n, account: 'alice', amount: 500, currency: 'EUR'});
    const key = h('input', {value: 'alice', size: 12}), id = h('input', {value: 'page-' + n, size: 18}), text = h('textarea', {}, value);
    card('produce', 'Produce a record', 'Produce it twice to see a duplicate.', h('form', {onsubmit: e => { e.preventDefault(); act({action: 'produce', record: {key: key.value, id: id.value, value: text.value}}); }},
      h('div', {class: 'bar'}, h('label', {}, 'Kafka key', key), h('label', {}, 'idempotency-key', id)), h('div', {class: 'bar'}, h('label', {class: 'wide'}, 'Value', text)), h('button', {class: 'main'}, 'Produce')));
    const file = h('input', {type: 'file', accept: '.jsonl,.json,.ndjson,.txt'});
    card('produceFile', 'Produce records from a file', 'A record a line, as for idemsk produce --format json: {"key":"k","value":{"a":1},"headers":{"idempotency-key":"pay-1"}}. If a line is not, nothing is produced.',
      h('form', {onsubmit: e => { e.preventDefault(); send(file.files[0]); }}, h('div', {class: 'bar'}, h('label', {class: 'wide'}, 'File, at most 4 MB', file)), h('button', {}, 'Produce the file')));
    card('pause', 'Pause a process beyond its lease', 'It stops when it completes a key. When its lease is over, another process gets the batch and takes the key over; then the first one continues, and its completion is refused.');
    card('kill', 'Kill a process', 'It dies after a claim. The batch is retried, and the key is taken over when the lease is over.');
    const after = ['Kill a process after its effect', 'It dies when a write to another table than that of the keys is performed, before it gets the answer. The ledger shows whether it was booked again.'];
    if (run.whyNoEffect) grid.append(h('section', {class: 'card'}, h('h2', {}, after[0]), h('p', {}, `Not in this run: ${run.whyNoEffect}.`)));
    card('killEffect', ...after);
    card('storeFail', 'Let the store fail', 'Each request to the store is answered with an error, for 10 s.');
    card('storeSlow', 'Slow the store down', 'Each request to the store takes a second more, for 10 s.');
    if (can('disable')) {
      const b = h('button', {id: 'mapping', onclick: () => act({action: run.enabled ? 'disable' : 'enable'})});
      mapping(b);
      card('disable', 'Disable the event source mapping', 'Running invocations finish. Nothing is read or retried until it is enabled again.', b);
    }
    card('redeliver', 'Deliver a batch again', 'Select an invocation: its exact batch goes to another process, or to two at once.', h('a', {href: '#/invocations'}, 'Select an invocation'));
  }};
}

// send produces the records of a file.
async function send(file) {
  if (!file) return say('Select a file first.');
  if (file.size > 4 << 20) return say(`The file has ${count(file.size)} bytes: at most 4 MB are produced here. Use idemsk produce.`);
  await act({action: 'produceFile', file: await file.text()});
}

function mapping(button) { set(button, run.enabled ? 'Disable' : 'Enable'); }

// ---- The frame

function route() {
  const [, name, arg] = location.hash.match(/^#\/([a-z]+)(?:\/(.*))?$/) || [null, 'records'];
  const views = {topic: topicView, records: recordsView, record: recordView, invocations: invocationsView, invocation: invocationView, letters: lettersView, ledger: ledgerView, faults: faultsView};
  main.replaceChildren();
  let value = arg || '';
  try { value = decodeURIComponent(value); } catch { /* a malformed address is a key without history */ }
  document.querySelectorAll('nav a').forEach(a => {
    if (a.hash === '#/' + name || a.hash === '#/' + name + 's') a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current');
  });
  if (run && run.notice) main.append(h('p', {class: 'notice'}, run.notice));
  view = (views[name] || recordsView)(value);
  if (run) view.update();
}

function frame(state) {
  const first = !run;
  run = state;
  set(document.getElementById('title'), run.title);
  const worst = run.alarms.length ? run.alarms[0].level : '';
  document.body.dataset.level = worst;
  patch(document.getElementById('alarms'), run.alarms, a => a.text, a => h('p', {class: 'alarm ' + a.level}), (p, a) => set(p, a.text + (a.since ? ` Since ${clock(a.since)}.` : '') + (a.until ? ` Until ${clock(a.until)}.` : '')));
  document.getElementById('state').replaceChildren(chip(run.ended ? 'ended' : run.enabled ? span(run.elapsed * 1000) : 'disabled', worst === 'bad' ? 'failed' : run.enabled && !run.ended && !worst ? 'ok' : 'waiting'));
  if (first) route(); else view.update();
}

let stream = null;
function connect() {
  if (document.hidden || stream) return;
  stream = new EventSource('/api/stream');
  stream.onmessage = e => frame(JSON.parse(e.data));
  stream.onerror = () => {
    if (run && run.ended) return;
    document.body.dataset.level = 'bad';
    document.getElementById('state').replaceChildren(chip('idemsk local has ended, or does not answer', 'failed'));
  };
}
// A hidden tab closes its stream, because a browser has few connections to a host.
document.addEventListener('visibilitychange', () => {
  if (document.hidden && stream) { stream.close(); stream = null; } else connect();
});
addEventListener('hashchange', () => { route(); main.focus(); });
addEventListener('resize', () => { if (view && view.resize) view.resize(); });
connect();
