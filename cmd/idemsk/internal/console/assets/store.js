'use strict';
// The page of idemsk console. It reads the store only if a button or a link is pressed, and repeats nothing by itself.

let store = null; // what the page shows and may do
const kept = {}; // what each view has read, so that a look at an entry does not read it again

const day = us => us ? new Date(us / 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : '';
const age = s => s < 60 ? Math.round(s) + ' s' : s < 3600 ? Math.round(s / 60) + ' min' : s < 172800 ? Math.round(s / 3600) + ' h' : Math.round(s / 86400) + ' days';
const ago = us => us ? age(Math.max(0, Date.now() / 1000 - us / 1e6)) + ' ago' : '';
const entryLink = key => h('a', {href: '#/entry/' + encodeURIComponent(key), title: key}, key);
const scroll = (name, ...children) => h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name}, h('table', {}, ...children));
const stateChip = e => chip(e.state + (e.expired ? ', expired' : ''), chips[e.state]);
const field = (name, input, cls) => h('label', {class: cls || ''}, name, input);
const fail = e => h('p', {class: 'err', role: 'alert'}, e.message);

// post asks for something that is not a change, with a body.
async function post(path, body) {
  const r = await fetch(path, {method: 'POST', headers: {'X-Idemsk-Token': token, 'Content-Type': 'application/json'}, body: JSON.stringify(body)});
  const got = await r.json();
  if (!r.ok) throw new Error(got.error);
  return got;
}

// reading disables a button and says what is read until it is done, and shows an error in the box.
async function reading(button, box, read) {
  const text = button.textContent;
  button.disabled = true;
  set(button, 'Reading …');
  try { await read(); } catch (e) { box.replaceChildren(fail(e)); }
  set(button, text);
  button.disabled = false;
}

// confirmed asks for a second press before a change.
function confirmed(button, question, verb, change) {
  const box = h('div');
  button.addEventListener('click', () => {
    const yes = h('button', {class: 'danger', onclick: async () => { yes.disabled = true; box.replaceChildren(); await change(); }}, verb);
    box.replaceChildren(h('div', {class: 'asking', role: 'group', 'aria-label': verb}, h('p', {}, typeof question === 'function' ? question() : question), h('div', {class: 'bar'}, yes, h('button', {onclick: () => { box.replaceChildren(); button.focus(); }}, 'Cancel'))));
    yes.focus();
  });
  return box;
}

// ---- A key

function searchView() {
  const key = h('input', {required: true, autocomplete: 'off', spellcheck: 'false'}), namespace = h('input', {value: store.namespace, size: 14, autocomplete: 'off'}), topic = h('input', {value: store.topic, size: 14, autocomplete: 'off'});
  const button = h('button', {class: 'main'}, 'Search'), box = h('div', {'aria-live': 'polite'});
  main.append(h('h1', {}, 'Search a key'), h('p', {class: 'lead'}, 'The key as it is stored, or as it is in the record with the namespace of its consumer and its topic. A key that is stored as a hash is found by the key itself. A search is one or two reads.'),
    h('form', {onsubmit: e => { e.preventDefault(); search(); }}, h('div', {class: 'bar fields'}, field('Key', key, 'wide'), field('Namespace', namespace), field('Topic', topic), button)), box);
  async function search() {
    await reading(button, box, async () => {
      const e = await get('/api/entry?' + new URLSearchParams({key: key.value, namespace: namespace.value, topic: topic.value}));
      box.replaceChildren(entryCard(e));
    });
  }
}

function entryView(key) {
  const box = h('div', {}, h('p', {class: 'muted'}, 'Reading …'));
  main.append(h('p', {class: 'lead'}, h('a', {href: '#/entries'}, 'Entries')), h('h1', {}, 'Entry'), h('p', {class: 'lead'}, ''), box);
  get('/api/entry?' + new URLSearchParams({key})).then(e => box.replaceChildren(entryCard(e)), e => box.replaceChildren(fail(e)));
}

// consequence says what the deletion of an entry means.
function consequence(e) {
  const of = `Version ${e.token}, as shown here, is deleted; if the entry has changed, nothing is. `;
  if (e.status === 'COMPLETED') return of + 'Its result is gone: the next delivery of the record runs the handler again, and its effect can happen twice.';
  if (e.status === 'FAILED') return of + 'The next delivery of the record runs the handler again, with attempt 1. To run it without a delivery, redrive its dead letter instead.';
  if (e.state === 'in flight') return of + 'An owner holds the key now: the next delivery runs beside it, and the effect can happen twice. The completion of the present owner is refused.';
  return of + 'The next delivery runs the handler with attempt 1. Without a deletion it takes the key over too.';
}

function entryCard(e) {
  const pair = (name, value) => value ? [h('dt', {}, name), h('dd', {}, value)] : [];
  const held = {'in flight': 'lease until', 'lease over': 'lease ended', waiting: 'next attempt from'}[e.state];
  const card = h('section', {class: 'card', 'aria-label': 'Entry'}, h('div', {class: 'heading'}, h('h2', {}, e.key), stateChip(e)),
    h('dl', {class: 'pairs'}, pair('status', e.status + (e.expired ? ', its retention is over: it counts as absent' : '')), pair('version', String(e.token)), pair('attempts', String(e.attempts)), pair('record', e.source), pair('owner', e.owner),
      held ? pair(held, `${day(e.until)}${e.until > Date.now() * 1000 ? ', in ' + age(e.until / 1e6 - Date.now() / 1000) : ', ' + ago(e.until)}`) : [],
      pair('created', e.created && `${day(e.created)}, ${ago(e.created)}`), pair('updated', e.updated && `${day(e.updated)}, ${ago(e.updated)}`), pair('expires', day(e.expires)), pair('fingerprint', e.fingerprint),
      pair('failure', e.code), pair('failed', e.failedAt && `${day(e.failedAt)}, ${ago(e.failedAt)}`), pair('message', e.message)),
    e.result ? block('Result', pretty(e.result)) : '');
  if (!store.changes) return card;
  const remove = h('button', {class: 'danger'}, 'Delete the entry …');
  card.append(h('div', {class: 'act'}, remove), confirmed(remove, consequence(e), 'Delete version ' + e.token, async () => {
    if (await act({action: 'delete', key: e.key, token: e.token})) card.replaceChildren(h('p', {}, 'The entry of ', h('b', {class: 'mono'}, e.key), ' is deleted.'));
  }));
  return card;
}

// ---- Entries

// listing reads entries in parts, and calls show with all that were read since the beginning.
function listing(state, parameters, show, box) {
  const more = h('button', {class: 'more', onclick: () => reading(more, problems, () => read(state.cursor))}, 'Read on'), foot = h('p', {class: 'muted more'}), problems = h('div', {'aria-live': 'polite'});
  box.append(problems, foot, more);
  function draw() {
    more.hidden = !state.cursor;
    show(state.entries);
    set(foot, state.done === undefined ? '' : `${plural(state.read, 'entry was', 'entries were')} read, ${count(state.entries.length)} of them ${state.entries.length === 1 ? 'is' : 'are'} listed. ` + (state.done ? 'These are all.' : 'There may be more.'));
    problems.replaceChildren(...state.problems.slice(0, 20).map(p => h('p', {class: 'err'}, p)));
  }
  async function read(cursor) {
    try {
      const got = await get('/api/entries?' + new URLSearchParams(cursor ? {cursor, ...parameters()} : parameters()));
      if (!cursor) Object.assign(state, {entries: [], problems: [], read: 0});
      state.entries.push(...got.entries);
      state.problems.push(...got.problems);
      state.read += got.read;
      state.cursor = got.cursor;
      state.done = !got.cursor;
      draw();
    } catch (e) { // what could not be continued begins anew
      Object.assign(state, {cursor: ''});
      draw();
      throw e;
    }
  }
  draw();
  return button => reading(button, problems, () => read(''));
}

const empty = () => ({entries: [], problems: [], read: 0, cursor: '', done: undefined});
const price = () => h('p', {class: 'muted cost'}, `Reads at most ${count(store.most)} entries at a time. All of them: ${store.cost}.`);

function entriesView(which) {
  const state = kept.entries ||= {...empty(), status: '', before: '', has: ''};
  if (which === 'overdue' && state.status !== 'overdue') Object.assign(state, empty(), {status: 'overdue'});
  const options = {'': 'All', STARTED: 'STARTED', overdue: 'STARTED, overdue', COMPLETED: 'COMPLETED', FAILED: 'FAILED'};
  const status = h('select', {}, Object.entries(options).map(([v, t]) => h('option', {value: v, selected: v === state.status}, t)));
  const before = h('input', {value: state.before, size: 12, placeholder: 'such as 90m'}), has = h('input', {value: state.has, type: 'search'}), button = h('button', {class: 'main'}, 'List');
  const rows = h('tbody'), table = scroll('Entries', head('key', 'state', '#attempts', 'updated', 'record', 'failure'), rows), box = h('div');
  main.append(h('h1', {}, 'Entries'), h('p', {class: 'lead'}, 'Overdue entries are STARTED, their lease or delay is over, and no delivery has claimed them since.'),
    h('form', {onsubmit: e => { e.preventDefault(); Object.assign(state, {status: status.value, before: before.value, has: has.value}); list(button); }},
      h('div', {class: 'bar fields'}, field('Status', status), field('Not updated for, or since', before), field('Part of the key', has, 'wide'), button)), price(), table, box);
  const list = listing(state, () => ({status: state.status === 'overdue' ? 'STARTED' : state.status, overdue: state.status === 'overdue', before: state.before, has: state.has}), entries => {
    table.hidden = !entries.length;
    rows.replaceChildren(...entries.map(e => h('tr', {}, h('td', {class: 'key'}, entryLink(e.key)), h('td', {}, stateChip(e)), h('td', {class: 'n'}, String(e.attempts)), h('td', {class: 'short', title: day(e.updated)}, ago(e.updated)),
      h('td', {class: 'short'}, e.source), h('td', {class: 'out', title: e.message}, e.code ? `${e.code}: ${e.message}` : ''))));
  }, box);
}

// ---- Failures

// cause is the failure of an entry without what differs from record to record: numbers, identifiers and quoted texts.
const cause = e => e.code + ': ' + e.message.replace(/"[^"]*"|'[^']*'/g, '"…"').replace(/[\w.@:-]*\d[\w.@:-]*/g, '…');

function failuresView() {
  const state = kept.failures ||= empty(), button = h('button', {class: 'main'}, 'Read the failures'), groups = h('div'), box = h('div');
  main.append(h('h1', {}, 'Failures'), h('p', {class: 'lead'}, 'FAILED keys, and keys whose last attempt failed, grouped by cause. Numbers, identifiers and quoted texts of a message are not compared.'),
    h('div', {class: 'bar'}, button), price(), groups, box);
  const list = listing(state, () => ({failure: true}), entries => {
    const causes = new Map();
    for (const e of entries) { const c = cause(e); if (!causes.has(c)) causes.set(c, []); causes.get(c).push(e); }
    groups.replaceChildren(...[...causes].sort((a, b) => b[1].length - a[1].length).slice(0, 200).map(([name, of]) => {
      const failed = of.filter(e => e.status === 'FAILED').length, last = Math.max(...of.map(e => e.failedAt));
      return h('section', {class: 'card cause', 'aria-label': name}, h('span', {class: 'n'}, count(of.length)), h('h2', {}, name),
        h('p', {class: 'muted'}, `${count(failed)} FAILED, ${count(of.length - failed)} with another attempt; the last ${ago(last)}`),
        h('p', {class: 'mono'}, of.slice(0, 5).flatMap((e, i) => [i ? ', ' : '', entryLink(e.key)]), of.length > 5 ? ` and ${count(of.length - 5)} more` : ''));
    }));
  }, box);
  button.addEventListener('click', () => list(button));
}

// ---- Dead letters and parked events

// chooser shows a table whose rows can be selected, with a button for all and one for the selected ones.
function chooser(name, columns, row, verb, question, change) {
  const rows = h('tbody'), table = scroll(name, head(...columns), rows), all = h('button', {}, `${verb} all …`), some = h('button', {}, `${verb} the selected ones …`);
  const checked = () => [...rows.querySelectorAll('input:checked')].map(i => items[i.value]);
  const bar = h('div', {class: 'bar'}, some, all), asks = h('div');
  const ready = () => { some.disabled = !checked().length; };
  let items = [];
  asks.append(confirmed(some, () => question(checked().length), verb, () => change(checked())), confirmed(all, () => question(0), verb + ' all', () => change([])));
  rows.addEventListener('change', ready);
  return {box: h('div', {}, bar, asks, table), show(list, may) {
    items = list;
    table.hidden = !list.length;
    bar.hidden = !list.length || !may;
    rows.replaceChildren(...list.map((item, i) => h('tr', {}, may && h('td', {}, h('input', {type: 'checkbox', value: i, 'aria-label': 'Select ' + (item.key || item.id)})), row(item))));
    ready();
  }};
}

function lettersView() {
  const button = h('button', {class: 'main'}, 'Read the dead letters'), note = h('div', {'aria-live': 'polite'});
  main.append(h('h1', {}, 'Dead letters'));
  if (!store.letters) { main.append(h('p', {class: 'lead'}, 'Start the console with --queue-url or --dead-letter-topic to see dead letters.')); return; }
  const may = store.changes && store.redrive;
  const list = chooser('Dead letters', may ? ['select', 'key', 'record', '#attempts', 'failure', 'value'] : ['key', 'record', '#attempts', 'failure', 'value'], l => [
    h('td', {class: 'key'}, l.key ? entryLink(l.key) : ''), h('td', {class: 'short'}, l.source), h('td', {class: 'n'}, String(l.attempts)), h('td', {class: 'message'}, h('b', {}, l.code), ': ', l.message), h('td', {class: 'out', title: l.value}, l.value)],
  'Redrive', n => `${n ? plural(n, 'dead letter is', 'dead letters are') : 'All dead letters of the source, also those that are not shown, are'} redriven, and removed from the source. Fix the cause first. A dead letter opens its key only if the key has not changed since that failure.`,
  async chosen => { say('Redriving …'); await act({action: 'redrive', letters: chosen.map(l => l.id)}); load(); });
  main.append(h('p', {class: 'lead'}, `Records that failed for good, in ${store.letters}.`), h('div', {class: 'bar'}, button),
    h('p', {class: 'muted cost'}, 'Reads at most 500 messages. Messages of a queue are hidden from other consumers while they are read, and their receive counts rise.' +
      (store.changes && !store.redrive ? ' To redrive, start the console with --brokers or --function-name.' : '')), note, list.box);
  list.show(kept.letters || [], may);
  const load = () => reading(button, note, async () => {
    const got = await get('/api/letters');
    list.show(kept.letters = got.letters, may);
    note.replaceChildren(h('p', {class: 'result'}, got.letters.length ? plural(got.letters.length, 'dead letter.', 'dead letters.') + (got.more ? ' There are more: redrive these first.' : '') : 'There are none.'),
      ...got.others.slice(0, 20).map(o => h('p', {class: 'err'}, 'Not a dead letter: ' + o)));
  });
  button.addEventListener('click', load);
}

function outboxView() {
  const button = h('button', {class: 'main'}, 'Read the parked events'), note = h('div', {'aria-live': 'polite'});
  main.append(h('h1', {}, 'Outbox'));
  if (!store.outbox) { main.append(h('p', {class: 'lead'}, 'Start the console with --outbox-table to see the parked events of an outbox, in DynamoDB or PostgreSQL.')); return; }
  const columns = ['topic', 'key', '#events', 'created', 'parked', '#attempts', 'failure'];
  const list = chooser('Parked events', store.changes ? ['select', ...columns] : columns, e => [h('td', {}, e.topic), h('td', {class: 'key'}, e.key), h('td', {class: 'n'}, String(e.events)),
    h('td', {class: 'short', title: day(e.created)}, ago(e.created)), h('td', {class: 'short', title: day(e.parked)}, ago(e.parked)), h('td', {class: 'n'}, String(e.attempts)), h('td', {class: 'message'}, e.failure)],
  'Requeue', n => `The relay sends ${n ? 'these events' : 'all parked events, also those that are not shown,'} again, after later events of their keys. Fix the cause first.`,
  async chosen => { await act({action: 'requeue', events: chosen}); load(); });
  main.append(h('p', {class: 'lead'}, 'Events that Kafka has rejected as often as the relay allows. They stay until they are requeued.'), h('div', {class: 'bar'}, button), h('p', {class: 'muted cost'}, store.outbox), note, list.box);
  list.show(kept.parked || [], store.changes);
  const load = () => reading(button, note, async () => {
    const got = await get('/api/parked');
    list.show(kept.parked = got.events, store.changes);
    note.replaceChildren(h('p', {class: 'result'}, got.events.length ? plural(got.events.length, 'parked event.', 'parked events.') + (got.more ? ' There are more: requeue these first.' : '') : 'There are none.'),
      ...got.problems.slice(0, 20).map(p => h('p', {class: 'err'}, p)));
  });
  button.addEventListener('click', load);
}

// ---- Reconcile

function reconcileView() {
  const file = h('input', {type: 'file', accept: '.csv,.jsonl,.ndjson'}), column = h('input', {value: 'idempotencyKey', size: 16}), namespace = h('input', {value: store.namespace, size: 14}), topic = h('input', {value: store.topic, size: 14});
  const button = h('button', {class: 'main'}, 'Reconcile'), box = h('div', {'aria-live': 'polite'});
  main.append(h('h1', {}, 'Reconcile'), h('p', {class: 'lead'}, 'Lists the overdue keys, whose lease or delay is over, and those that failed. With an export of business records, CSV with a header line or JSON lines of at most 8 MB, it compares the COMPLETED keys with it.'),
    h('form', {onsubmit: e => { e.preventDefault(); run(); }}, h('div', {class: 'bar fields'}, field('Export (optional)', file, 'wide'), field('Column or member with the key', column), field('Namespace of its keys', namespace), field('Topic', topic), button)),
    h('p', {class: 'muted cost'}, `Reads the whole store: ${store.cost}.`), box);
  const run = () => reading(button, box, async () => {
    const f = file.files[0];
    if (f && f.size > 8 << 20) throw new Error(`The export has ${count(f.size)} bytes: at most 8 MB are read here. Use idemsk reconcile --against.`);
    const r = await post('/api/reconcile', {name: f ? f.name : '', text: f ? await f.text() : '', field: column.value, namespace: namespace.value, topic: topic.value});
    const numbers = h('dl', {class: 'facts'});
    facts(numbers, [{name: 'entries', value: r.records}, ...r.groups.slice(0, f ? 6 : 2).map(g => ({name: g.name, value: g.count, bad: g.count > 0})), ...(f ? [{name: 'rows', value: r.rows}, {name: 'completed', value: r.matched}] : [])]);
    box.replaceChildren(numbers, ...r.groups.filter(g => g.count).flatMap(g => [h('h2', {}, g.name), scroll(g.name, head('key', 'state', '#attempts', 'updated', 'record', 'failure', '#line'),
      h('tbody', {}, g.entries.map(({key, entry: e, line}) => h('tr', {}, h('td', {class: 'key'}, e ? entryLink(key) : key), h('td', {}, e ? stateChip(e) : ''), h('td', {class: 'n'}, e ? String(e.attempts) : ''), h('td', {class: 'short'}, e ? ago(e.updated) : ''),
        h('td', {class: 'short'}, e ? e.source : ''), h('td', {class: 'out'}, e && e.code ? `${e.code}: ${e.message}` : ''), h('td', {class: 'n'}, line ? String(line) : ''))))),
    g.count > g.entries.length ? h('p', {class: 'muted'}, `The first ${g.entries.length} of ${count(g.count)}. idemsk reconcile lists all.`) : '']));
  });
}

// ---- The frame

function route() {
  const [, name, arg] = location.hash.match(/^#\/([a-z]+)(?:\/(.*))?$/) || [null, 'search'];
  const views = {search: searchView, entry: entryView, entries: entriesView, failures: failuresView, letters: lettersView, outbox: outboxView, reconcile: reconcileView};
  main.replaceChildren();
  let value = arg || '';
  try { value = decodeURIComponent(value); } catch { /* a malformed address is a key without an entry */ }
  document.querySelectorAll('nav a').forEach(a => { if (a.hash === '#/' + name) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current'); });
  (views[name] || searchView)(value);
}

get('/api/store').then(got => {
  store = got;
  set(document.getElementById('title'), store.place);
  document.getElementById('state').replaceChildren(chip(store.changes ? 'changes allowed' : 'read-only', store.changes ? 'waiting' : 'ok'));
  route();
  addEventListener('hashchange', () => { route(); main.focus(); });
}, e => main.replaceChildren(fail(e)));
