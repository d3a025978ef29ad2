// The summary of a run. Its verdict is that of the thresholds, which also determine the exit code.
import { CODES, ORDER_ANSWERS, PROMISES } from './buyers.js';

// summary returns a handleSummary. title describes the run.
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

// perSecond formats a rate over the time from the start of the sale, or an earlier first order, to the last value of
// trend.
function perSecond(metrics, count, trend) {
  const took = value(metrics, trend, 'max') - Math.min(0, value(metrics, trend, 'min'));
  return took > 0 ? `, ${Math.round((1000 * count) / took)}/s until the last one` : '';
}

function orders(m) {
  const placed = value(m, 'orders_placed', 'count');
  return [
    row('durable orders', `${value(m, 'total_orders', 'value')} active, ${placed} placed${perSecond(m, placed, 'ordered_after')}`),
    row('units left', value(m, 'total_left', 'value')),
  ];
}

function answers(m) {
  const counts = [...CODES, 'other'].map((code) => [code, value(m, `answers_${code}`, 'count')]);
  const all = counts.reduce((sum, [, n]) => sum + n, 0);
  return [
    row('answers', `${all}${perSecond(m, all, 'answered_after')}`),
    ...counts.filter(([, n]) => n > 0).map(([code, n]) => row(`  ${code}`, n)),
    ...(m.dropped_iterations ? [row('not sent in time', `${value(m, 'dropped_iterations', 'count')}: this machine is too slow`)] : []),
  ];
}

// latencies formats the times to the answers and to the outcomes. In lane queue an outcome may come later than its
// answer.
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
  const promise = ([name, metric, text]) => {
    if (!read('total_read')) {
      return row(name, 'not checked: the totals could not be read');
    }
    return row(name, `${broken.some(([b]) => b === metric) ? 'BROKEN' : 'ok'}: ${text(read)}`);
  };
  return [
    ...PROMISES.map(promise),
    ...broken.map(([name, threshold]) => `  BROKEN ${name}: ${threshold}`),
    `verdict: ${broken.length === 0 ? 'all promises hold' : 'BROKEN'}`,
  ];
}
