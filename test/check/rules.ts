/**
 * The dependency rule: `libs/core ← libs/sse, libs/store, libs/service ← apps/*`. A lib imports core and npm, never a
 * sibling; an app imports libs, never an app; each foreign world has one door; the core is pure. Tests may import all.
 */

export type Source = { readonly path: string; readonly text: string }
export type Manifest = {
  readonly path: string
  readonly name: string
  readonly dependencies: readonly string[]
}

const MAX_LINES = 500

/** Packages that only one place imports, so that what it stands for can be changed in one place. */
const doors: readonly { readonly what: RegExp; readonly only: string }[] = [
  { what: /^@nats-io\//, only: 'libs/store' },
  { what: /^(hono|@hono\/.*)(\/|$)/, only: 'apps/edge' },
  { what: /^undici(\/|$)/, only: 'apps/relay' },
  { what: /^jose(\/|$)/, only: 'apps/edge' },
]

/** What has effects, tells the time or rolls dice. A pure core takes values in and gives decisions out. */
const impure: readonly { readonly what: RegExp; readonly name: string }[] = [
  { what: /\bDate\b(?!\.parse\b|\.UTC\b)/, name: 'Date' },
  { what: /\bMath\.random\b/, name: 'Math.random' },
  { what: /\bperformance\b/, name: 'performance' },
  { what: /\b(setTimeout|setInterval|setImmediate|queueMicrotask)\b/, name: 'timers' },
  { what: /\bcrypto\b/, name: 'crypto' },
  { what: /\bprocess\.\w/, name: 'process' },
  { what: /\bfetch\(/, name: 'fetch' },
  { what: /\bconsole\./, name: 'console' },
]

/** Every way in which these files and manifests break the rule, a line each. */
export function violations(sources: readonly Source[], manifests: readonly Manifest[]): string[] {
  const byFolder = new Map(manifests.map((manifest) => [folderOf(manifest.path), manifest]))
  return [
    ...manifests.flatMap((manifest) => ofManifest(manifest)),
    ...sources.flatMap((source) => ofSource(source, byFolder.get(folderOf(source.path)) ?? null)),
  ]
}

function ofManifest(manifest: Manifest): string[] {
  const folder = folderOf(manifest.path)
  return manifest.dependencies.flatMap((name) =>
    mayImport(folder, name) ? [] : [`${manifest.path}: ${folder} may not depend on ${name}`],
  )
}

function ofSource({ path, text }: Source, manifest: Manifest | null): string[] {
  const folder = folderOf(path)
  const code = withoutComments(text)
  const found: string[] = []
  const lines = text.split('\n').length
  if (lines > MAX_LINES) found.push(`${path}: ${lines} lines, at most ${MAX_LINES}`)
  for (const name of importsOf(code)) found.push(...ofImport(path, folder, name, manifest))
  if (folder.startsWith('test')) return found
  if (/\bprocess\.env\b/.test(code) && !readsEnvironment(path)) found.push(`${path}: process.env belongs in main.ts`)
  if (folder === 'libs/core' && !isTest(path)) {
    for (const { what, name } of impure) {
      if (what.test(withoutStrings(code))) found.push(`${path}: libs/core is pure, but uses ${name}`)
    }
  }
  return found
}

function ofImport(path: string, folder: string, name: string, manifest: Manifest | null): string[] {
  if (folder === 'test') return []
  const refuse = (reason: string) => [`${path}: ${reason}`]
  if (name.startsWith('.')) {
    const target = resolve(path, name)
    return folderOf(target) === folder ? [] : refuse(`${name} leaves ${folder}: import the package by its name`)
  }
  if (isSetUp(path) && !isTest(path)) {
    return name.startsWith('node:') ? [] : refuse(`the set-up runs before anything is installed, but imports ${name}`)
  }
  if (name.startsWith('node:')) {
    return folder === 'libs/core' && !isTest(path) ? refuse(`libs/core is pure, but imports ${name}`) : []
  }
  if (!mayImport(folder, name)) return refuse(`${folder} may not import ${name}`)
  const foreign = packageOf(name)
  if (isTest(path) || manifest === null || manifest.dependencies.includes(foreign)) return []
  return refuse(`${manifest.path} does not list ${foreign}`)
}

function mayImport(folder: string, name: string): boolean {
  if (doors.some(({ what, only }) => what.test(name) && folder !== only)) return false
  const ours = /^@baton\/([^/]+)/.exec(name)?.[1]
  if (ours === undefined) return true
  if (ours === 'core' || folder === `libs/${ours}` || folder === `apps/${ours}`) return true
  return folder.startsWith('apps/') && ['sse', 'store', 'service'].includes(ours)
}

/** `libs/core/src/ids.ts` → `libs/core`; `test/kit/child.ts` → `test`. */
function folderOf(path: string): string {
  const parts = path.split('/')
  return parts[0] === 'test' ? 'test' : parts.slice(0, 2).join('/')
}

const isTest = (path: string): boolean => path.endsWith('.test.ts')
const isSetUp = (path: string): boolean => path.startsWith('apps/cli/setup/')
/** The set-up runs before there is a configuration to read. */
const readsEnvironment = (path: string): boolean => path.endsWith('/src/main.ts') || isSetUp(path) || isTest(path)

const packageOf = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')

function importsOf(code: string): string[] {
  const statements = /(?:^|[\s;])(?:import|export)\s[^'"]*?from\s*['"]([^'"]+)['"]/g
  const bare = /(?:^|[\s;])import\s*['"]([^'"]+)['"]/g
  const dynamic = /\bimport\(\s*['"]([^'"]+)['"]/g
  return [statements, bare, dynamic].flatMap((form) => [...code.matchAll(form)].map((found) => found[1] ?? ''))
}

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1')

const withoutStrings = (code: string): string => code.replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, "''")

function resolve(from: string, name: string): string {
  const parts = from.split('/').slice(0, -1)
  for (const part of name.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}
