import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The daemon that `npm run dev` uses. It must be one that only this machine reaches.
const daemon = process.env.HORTUS_DEV ?? "http://127.0.0.1:7070";
const proxy = { target: daemon, headers: { origin: daemon }, changeOrigin: true };

export default defineConfig({
  root: at("."),
  plugins: [svelte()],
  resolve: { alias: { hortus: at("../sdk/typescript/src/index.ts") } },
  server: { proxy: { "/v1": proxy, "/console/session": proxy, "/console/oidc": proxy } },
  build: {
    outDir: at("../internal/server/console/dist"),
    emptyOutDir: true,
    target: "es2022",
    // A data URL would be against the policy of the page, and so would a polyfill with inline code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: "console/assets/[name]-[hash].js",
        chunkFileNames: "console/assets/[name]-[hash].js",
        assetFileNames: "console/assets/[name]-[hash][extname]",
      },
    },
  },
});
