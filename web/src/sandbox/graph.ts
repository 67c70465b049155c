/** A graph over time, in a chunk of its own: it is loaded when usage is opened. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Graph {
  show(times: number[], values: (number | null)[], limit: number | undefined): void;
  dispose(): void;
}

const height = 170;
/** The least time that is shown, in seconds, and of fewer points than this each is shown. */
const least = 60;
const few = 20;
/** Steps of an axis with sizes. */
export const sizes = Array.from({ length: 40 }, (_, i) => 2 ** i);

const shown = (times: ArrayLike<number>): [number, number] => {
  const end = times[times.length - 1] ?? Date.now() / 1000;
  return [Math.min(times[0] ?? end, end - least), end];
};

export function openGraph(at: HTMLElement, text: (v: number) => string, steps?: number[]): Graph {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  let plot: uPlot | undefined;
  let data: uPlot.AlignedData = [[], [], []];
  const draw = () => {
    plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui" };
    plot = new uPlot(
      {
        width: Math.max(200, at.clientWidth), height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        scales: { x: { range: (u) => shown(u.data[0]) }, y: { range: (_, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [axis, { ...axis, size: 76, values: (_, all) => all.map((v) => text(v)), ...(steps ? { incrs: steps } : {}) }],
        series: [{}, { stroke: colour("--accent"), fill: colour("--good-ground"), width: 2, points: { show: (u) => u.data[0].length < few } }, { stroke: colour("--bad"), dash: [6, 4], width: 1, points: { show: false } }],
      },
      data, at,
    );
  };
  draw();
  const observer = new ResizeObserver(() => plot?.setSize({ width: Math.max(200, at.clientWidth), height }));
  observer.observe(at);
  scheme.addEventListener("change", draw);
  return {
    show: (times, values, limit) => {
      // A limit that is far away would make a line of the values.
      const most = Math.max(0, ...values.map((v) => v ?? 0));
      data = [times, values, times.map(() => (limit && limit < most * 3 ? limit : null))];
      plot?.setData(data);
    },
    dispose: () => {
      observer.disconnect();
      scheme.removeEventListener("change", draw);
      plot?.destroy();
    },
  };
}
