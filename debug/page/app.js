// The shell: the line of views, the stream of what the store does, and what is said when it ends.
import { h, put, get, listen, tip } from './lib.js';
import * as overview from './overview.js';
import * as keys from './keys.js';
import * as sizes from './sizes.js';
import * as heat from './heat.js';
import * as files from './files.js';
import * as events from './events.js';

const views = { '': overview, keys, sizes, heat, files, events };
const names = { '': 'Overview', keys: 'Keys', sizes: 'Sizes', heat: 'Heat', files: 'Files', events: 'Events' };
const main = document.getElementById('main');
const banner = document.getElementById('banner');
const pulse = document.getElementById('pulse');

// live is what the stream has brought. Views may ask to be told of news.
export const live = { state: null, points: [] };
let current = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const name = views[path] ? path : '';
  const params = new URLSearchParams(query || '');
  if (current && current.close) current.close();
  tip(null);
  main.replaceChildren();
  main.className = `view-${name || 'overview'}`;
  current = views[name].open(main, params, live);
  showNav(name);
  document.title = `${live.state ? live.state.title : 'Brock'} · ${names[name]}`;
}

function showNav(name) {
  const nav = document.getElementById('nav');
  put(nav, [name], () => Object.keys(views).map(v => h('a', { href: `#/${v}`, 'aria-current': v === name ? 'page' : null }, names[v])));
  const here = nav.querySelector('[aria-current]');
  if (here && here.offsetLeft + here.offsetWidth > nav.clientWidth + nav.scrollLeft) nav.scrollLeft = here.offsetLeft - 20;
}

function showHead() {
  const st = live.state;
  const title = document.getElementById('title');
  if (title.textContent !== st.title) {
    title.textContent = st.title;
    document.title = `${st.title} · ${names[main.className.slice(5)] || 'Overview'}`;
  }
  const chips = [];
  if (st.mode !== 'ReadWrite') chips.push(st.mode === 'Follow' ? 'follows its writer' : 'read only');
  if (st.encrypted) chips.push('encrypted');
  if (st.inMemory) chips.push('in memory');
  put(document.getElementById('chips'), chips, () => chips.map(c => h('span', { class: 'chip' }, c)));
}

// The stream.
let source = null;
let retry = 0;

function status(kind, text) {
  pulse.className = `pulse ${kind}`;
  if (pulse.textContent !== text) pulse.textContent = text;
}

function say(text) {
  banner.hidden = !text;
  banner.textContent = text || '';
}

function start() {
  clearTimeout(retry);
  if (source) return;
  const last = live.points.length ? live.points[live.points.length - 1].at : 0;
  source = listen('live', { after: last }, {
    state(st) {
      live.state = st;
      status('on', 'live');
      say('');
      showHead();
      if (current && current.news) current.news();
    },
    points(list) {
      live.points = live.points.concat(list).slice(-600);
      if (current && current.news) current.news();
    },
    end(failure) {
      stop();
      explain(failure);
    },
    error(over) {
      if (over) {
        stop();
        get('state').then(() => { retry = setTimeout(start, 2000); }, explain);
      } else {
        status('off', 'reconnecting');
      }
    },
  });
}

function stop() {
  if (source) source.close();
  source = null;
}

// explain says why nothing comes, and tries again later.
function explain(failure) {
  const closed = failure.code === 'closed';
  status('off', closed ? 'closed' : 'no answer');
  const text = failure.error || failure.message;
  if (!live.state) say('');
  else say(closed ? 'The store is closed. What is below is from before that.' : `Nothing new comes: ${text}.`);
  if (!live.state && current && current.gone) current.gone(closed ? 'The store is closed.' : `${text[0].toUpperCase()}${text.slice(1)}.`);
  clearTimeout(retry);
  retry = setTimeout(start, closed ? 10000 : 3000);
}

// A page that nobody sees for a minute asks for nothing.
let hidden = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hidden);
  if (document.hidden) {
    hidden = setTimeout(() => {
      stop();
      status('off', 'paused');
      if (current && current.pause) current.pause();
    }, 60e3);
  } else {
    start();
    if (current && current.resume) current.resume();
  }
});

addEventListener('hashchange', route);
status('off', 'connecting');
route();
start();
