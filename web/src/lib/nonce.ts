/**
 * The page's policy allows only styles of files, and those with a number that is new for each load. Terminal and editor add styles: while
 * they are open, the elements for them get that number. Nobody else makes such elements, and data never becomes one.
 */
let users = 0;
let original: typeof document.createElement | undefined;

export const nonce = document.querySelector<HTMLMetaElement>('meta[name="nonce"]')?.content ?? "";

export function allowStyles(): () => void {
  if (users++ === 0) {
    const create = document.createElement.bind(document);
    original = document.createElement;
    document.createElement = ((name: string, options?: ElementCreationOptions) => {
      const element = create(name, options);
      if (name.toLowerCase() === "style") element.nonce = nonce;
      return element;
    }) as typeof document.createElement;
  }
  let used = true;
  return () => {
    if (used && --users === 0 && original) document.createElement = original;
    used = false;
  };
}
