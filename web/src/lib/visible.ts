/**
 * Streams of a tab that nobody sees are closed: a browser allows six connections to a host, for all tabs together. They continue with
 * the next number when the tab is seen again.
 */
const patience = 10_000;

/** Waits until the page is seen, or the signal. */
export function seen(signal: AbortSignal): Promise<void> {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    document.addEventListener("visibilitychange", done);
    signal.addEventListener("abort", done);
  });
}

/** Calls a function when the page was hidden for a while, until the returned function is called. */
export function onHidden(f: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(f, patience);
  };
  document.addEventListener("visibilitychange", changed);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}
