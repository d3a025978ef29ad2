// What a person wants to know of a run. The verdict is that of the thresholds, which also make the exit code.
import { CODES, ORDER_ANSWERS, PROMISES } from './crowd.js';

// summary makes a handleSummary. title says what was run.
export function summary(title) {
  return (data) => {
    const m = data.metrics;
    const lines = [title, ...orders(m), ...answers(m), ...latencies(m), ...verdict(m)];
    return { stdout: `${lines.join('\n')}\n` };
  };
}

function value(metrics, name, key) {
  return (metrics[name] && metrics[name].values[key]) || 0;
}

function row(name, text) {
  return `  ${name.padEnd(24)} ${text}`;
}

// perSecond is a rate over the time from when the crowd was let in, or from the first press before, to the last of them.
function perSecond(metrics, count, trend) {
  const took = value(metrics, trend, 'max') - Math.min(0, value(metrics, trend, 'min'));
  return took > 0 ? `, ${Math.round((1000 * count) / took)}/s until the last of them` : '';
}

function orders(m) {
  const placed = value(m, 'orders_told', 'count');
  return [
    row('durable orders', `${value(m, 'book_orders', 'value')} held, ${placed} placed${perSecond(m, placed, 'ordered_after')}`),
    row('units left', value(m, 'book_left', 'value')),
  ];
}

function answers(m) {
  const counts = [...CODES, 'other'].map((code) => [code, value(m, `heard_${code}`, 'count')]);
  const all = counts.reduce((sum, [, n]) => sum + n, 0);
  return [
    row('answers', `${all}${perSecond(m, all, 'pressed_after')}`),
    ...counts.filter(([, n]) => n > 0).map(([code, n]) => row(`  ${code}`, n)),
    ...(m.dropped_iterations ? [row('not pressed in time', `${value(m, 'dropped_iterations', 'count')}: this machine is too slow`)] : []),
  ];
}

// latencies are those of the answers, and of the outcomes: in the lane queue these may come later.
function latencies(m) {
  const parts = Object.keys(m).filter((name) => name.startsWith('to_outcome_')).sort();
  return [['to answer', ORDER_ANSWERS], ['to outcome', 'to_outcome'], ...parts.map((p) => [`  ${p.slice('to_outcome_'.length)}`, p])]
    .map(([name, metric]) => row(name, ['med', 'p(90)', 'p(95)', 'p(99)', 'max']
      .map((key) => `${key} ${value(m, metric, key).toFixed(1)}`).join('  ') + '  ms'));
}

function verdict(m) {
  const broken = [];
  for (const [name, metric] of Object.entries(m)) {
    for (const [threshold, result] of Object.entries(metric.thresholds || {})) {
      if (!result.ok) {
        broken.push([name, threshold]);
      }
    }
  }
  const read = (name) => value(m, name, 'value') || value(m, name, 'count'); // a gauge, or a counter
  const promise = ([name, metric, says]) => {
    if (!read('book_read')) {
      return row(name, 'not checked: the books could not be read');
    }
    return row(name, `${broken.some(([b]) => b === metric) ? 'BROKEN' : 'ok'}: ${says(read)}`);
  };
  return [
    ...PROMISES.map(promise),
    ...broken.map(([name, threshold]) => `  BROKEN ${name}: ${threshold}`),
    `verdict: ${broken.length === 0 ? 'every promise holds' : 'BROKEN'}`,
  ];
}
