import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { violations, type Manifest, type Source } from './rules.ts'

const root = join(import.meta.dirname, '..', '..')

const exclude = ['**/node_modules/**']
const read = (path: string): Source => ({ path, text: readFileSync(join(root, path), 'utf8') })
const sources = globSync(['{apps,libs}/*/{src,setup}/**/*.{ts,js}', 'test/**/*.ts'], { cwd: root, exclude }).map(read)
const manifests = globSync(['{apps,libs}/*/package.json'], { cwd: root, exclude }).map(manifestOf)

function manifestOf(path: string): Manifest {
  const { name, dependencies = {} } = JSON.parse(read(path).text) as {
    name: string
    dependencies?: Record<string, string>
  }
  return { path, name, dependencies: Object.keys(dependencies) }
}

if (sources.length === 0 || manifests.length === 0) throw new Error(`no sources found under ${root}`)
const found = violations(sources, manifests)
for (const line of found) console.error(line)
console.log(`dependency rule: ${sources.length} files, ${found.length === 0 ? 'held' : `broken ${found.length} times`}`)
process.exitCode = found.length === 0 ? 0 : 1
