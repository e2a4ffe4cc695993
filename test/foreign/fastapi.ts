import { Child } from '../kit/child.ts'
import type { JobEmission } from '../kit/history.ts'
import { streamPath, type ForeignAgent } from './foreign-job.ts'

/** An agent as users of FastAPI write one (fastapi_agent.py), under uvicorn. `python` has what requirements.txt names. */
export async function startFastApiAgent(python: string): Promise<ForeignAgent> {
  const args = ['-m', 'uvicorn', 'fastapi_agent:app', '--app-dir', import.meta.dirname, '--port', '0']
  const environment = { PATH: process.env['PATH'] ?? '', PYTHONDONTWRITEBYTECODE: '1' }
  const child = new Child('fastapi', python, args, environment)
  const [, url = ''] = await child.said(/Uvicorn running on (http:\/\/[\d.:]+)/, 60_000)
  return {
    url: (name, script) => `${url}${streamPath(name, script)}`,
    emission: async (name) => {
      const response = await fetch(`${url}/${name}/emission`)
      const said = (await response.json()) as Pick<JobEmission, 'events' | 'connections'>
      return { job: 'main', replays: 'all', ...said }
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}
