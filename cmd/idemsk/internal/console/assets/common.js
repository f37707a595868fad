'use strict';
// What the pages of idemsk local and idemsk console share. All that comes from records is put into a page as text, never as markup.

const main = document.getElementById('main');
const token = document.querySelector('meta[name=token]').content;

// h returns an element with properties, attributes (of dashes) and children, which are elements or text.
function h(name, props, ...children) {
  const el = document.createElement(name);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === 'class') el.className = v; else if (k.startsWith('on')) el.addEventListener(k.slice(2), v);
    else if (v === true) el.setAttribute(k, ''); else if (v !== false && v != null) el.setAttribute(k, v);
  }
  el.append(...children.flat().filter(c => c != null && c !== false));
  return el;
}

function s(name, attrs, ...children) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [k, v] of Object.entries(attrs || {})) if (v != null) el.setAttribute(k, v);
  el.append(...children.filter(c => c != null));
  return el;
}

// patch makes the children of an element those of a list, and keeps the elements of items that stay, and with them the focus.
function patch(parent, items, id, make, update) {
  const old = new Map([...parent.children].map(el => [el.dataset.id, el]));
  let at = parent.firstElementChild;
  for (const item of items) {
    let el = old.get(String(id(item)));
    if (!el) { el = make(item); el.dataset.id = id(item); }
    old.delete(el.dataset.id);
    if (el === at) at = at.nextElementSibling; else parent.insertBefore(el, at);
    update(el, item);
  }
  for (const el of old.values()) el.remove();
}

// set changes a text only if it is another one, so that selections and screen readers are not disturbed.
function set(el, text) { text = String(text); if (el.textContent !== text) el.textContent = text; }

const count = n => n.toLocaleString('en-US');
const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many);
const time = us => new Date(us / 1000).toLocaleTimeString('en-GB') + '.' + String(Math.floor(us / 1000) % 1000).padStart(3, '0');
const clock = us => new Date(us / 1000).toLocaleTimeString('en-GB');
const moment = us => new Date(us / 1000).toLocaleDateString('en-CA') + ' ' + time(us);
const short = t => '…' + String(t % 100000).padStart(5, '0');
const cut = (text, n) => text.length > n ? text.slice(0, n - 1) + '…' : text;

function span(us) {
  if (us < 1000) return Math.round(us) + ' µs';
  if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 1 : 0) + ' ms';
  if (us < 6e7) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + ' s';
  return Math.floor(us / 6e7) + ' min ' + Math.round(us % 6e7 / 1e6) + ' s';
}

let saying = 0;
function say(text) {
  set(document.getElementById('said'), text);
  clearTimeout(saying);
  saying = setTimeout(() => set(document.getElementById('said'), ''), 6000);
}

async function get(path) {
  const r = await fetch(path);
  const body = await r.json();
  if (!r.ok) throw new Error(body.error);
  return body;
}

// act performs an action, and returns whether it was done.
async function act(action) {
  try {
    const r = await fetch('/api/actions', {
      method: 'POST', headers: {'X-Idemsk-Token': token, 'Content-Type': 'application/json'}, body: JSON.stringify(action),
    });
    const text = await r.text();
    let body;
    try { body = JSON.parse(text); } catch { body = {error: text}; }
    say(r.ok ? body.done : body.error);
    return r.ok;
  } catch (e) {
    say('idemsk does not answer: ' + e.message);
    return false;
  }
}

const chip = (text, kind) => h('span', {class: 'chip ' + kind}, text);
const chips = {'in flight': 'flight', 'lease over': 'over', waiting: 'waiting', completed: 'completed', failed: 'failed'};
const head = (...names) => h('thead', {}, h('tr', {}, names.map(n => h('th', {scope: 'col', class: n[0] === '#' ? 'n' : ''}, n.replace('#', '')))));

function facts(el, list) {
  patch(el, list, f => f.name, f => h('div', {}, h('dt', {}, f.name), h('dd', {})), (row, f) => {
    const dd = row.lastElementChild;
    dd.className = (f.bad ? 'bad' : '') + (typeof f.value === 'number' ? '' : ' word');
    set(dd, typeof f.value === 'number' ? count(f.value) : f.value);
  });
}

const block = (name, text) => h('section', {}, h('h2', {}, name), h('pre', {tabindex: 0, role: 'region', 'aria-label': name}, text));

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
