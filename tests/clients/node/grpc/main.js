// A gRPC client without a proxy, and a server that is told by xDS how to listen: main.js [server ADDRESS]
//
// GRPC_XDS_BOOTSTRAP names the file that says where the rules are. It is driven by lines of JSON, as
// tests/clients/xds/grpc_client.py is:
//
//     {"op": "call", "target": T, "times": 20, "parallel": 1, "method": "/shop.Pay/Charge", "metadata": {"k": "v"}, "timeout_s": 5}
//     {"op": "flow", "name": N, "target": T, "pause_s": 0.005, …}, {"op": "seen", "name": N}, {"op": "stop", "name": N}
//     {"op": "forget", "target": T}     closes the channel
//
// With "ca", a file, a call goes by TLS; with "by_xds", true, by what xDS says of it, and otherwise by TLS. Messages are empty, answers are the bytes that a server names itself by.
'use strict';

const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

xds.register();

const channels = new Map();
const flows = new Map();

const newTally = () => ({ answers: {}, errors: {}, texts: {} });
const same = (bytes) => bytes;
const say = (line) => console.log(JSON.stringify(line));
const add = (counts, key) => { counts[key] = (counts[key] || 0) + 1; };

function channel(asked) {
  if (!channels.has(asked.target)) {
    const secure = asked.ca ? grpc.credentials.createSsl(fs.readFileSync(asked.ca)) : grpc.credentials.createInsecure();
    const credentials = asked.by_xds ? new xds.XdsChannelCredentials(secure) : secure;
    channels.set(asked.target, new grpc.Client(asked.target, credentials));
  }
  return channels.get(asked.target);
}

function once(tally, asked) {
  return new Promise((resolve) => {
    const metadata = new grpc.Metadata();
    for (const [key, value] of Object.entries(asked.metadata || {})) metadata.set(key, value);
    const deadline = new Date(Date.now() + 1000 * (asked.timeout_s || 5));
    const answered = (error, answer) => {
      if (error) {
        add(tally.errors, grpc.status[error.code]);
        tally.texts[grpc.status[error.code]] = error.details;
      } else {
        add(tally.answers, answer.toString());
      }
      resolve();
    };
    const method = asked.method || '/shop.Pay/Charge';
    channel(asked).makeUnaryRequest(method, same, same, Buffer.alloc(0), metadata, { deadline }, answered);
  });
}

async function call(asked) {
  const tally = newTally();
  let left = asked.times || 1;
  const work = async () => { while (left-- > 0) await once(tally, asked); };
  await Promise.all(Array.from({ length: asked.parallel || 1 }, work));
  return tally;
}

function flow(asked) {
  const started = { ends: false, tally: newTally() };
  const pause = () => new Promise((resolve) => { setTimeout(resolve, 1000 * (asked.pause_s || 0.005)); });
  const work = async () => {
    while (!started.ends) {
      await pause();
      await once(started.tally, asked);
    }
  };
  started.done = Promise.all(Array.from({ length: asked.parallel || 1 }, work));
  flows.set(asked.name, started);
  return {};
}

async function stop(asked) {
  const stopped = flows.get(asked.name);
  flows.delete(asked.name);
  stopped.ends = true;
  await stopped.done;
  return stopped.tally;
}

function forget(asked) {
  channels.get(asked.target).close();
  channels.delete(asked.target);
  return {};
}

const operations = { call, flow, stop, forget, seen: (asked) => flows.get(asked.name).tally };

// Answers /shop.Pay/Charge with its address, once xDS has said how to listen.
function serve(address) {
  const server = new xds.XdsServer();
  const answer = (_call, answered) => answered(null, Buffer.from(address));
  server.register('/shop.Pay/Charge', answer, same, same, 'unary');
  server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error) => {
    say(error ? { mode: 'NOT_SERVING', fault: error.message } : { mode: 'SERVING' });
  });
  process.stdin.on('end', () => process.exit(0)).resume();
}

async function main() {
  const { version } = require('@grpc/grpc-js-xds/package.json');
  say({ ready: true, version });
  if (process.argv[2] === 'server') {
    serve(process.argv[3]);
    return;
  }
  const lines = require('readline').createInterface({ input: process.stdin });
  for await (const line of lines) {
    let answer;
    try {
      const asked = JSON.parse(line);
      answer = await operations[asked.op](asked);
    } catch (error) {
      answer = { failed: String(error) };
    }
    say(answer);
  }
  process.exit(0);
}

main();
