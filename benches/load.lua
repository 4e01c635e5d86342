-- What wrk sends, and how it tells the result.
--
-- Environment: BENCH_WORKLOAD (the names of `workloads` below), BENCH_TARGETS (host:port list, one
-- thread each), BENCH_TOKEN, BENCH_SALT (differs between runs, so that every write changes something),
-- BENCH_KEYS, which the requests go round. A value has VALUE_BYTES characters.

local KEYS = tonumber(os.getenv("BENCH_KEYS"))
local VALUE_BYTES = 200

local threads = {}

function setup(thread)
  local index = #threads
  local targets = {}
  for target in string.gmatch(os.getenv("BENCH_TARGETS"), "[^,]+") do
    targets[#targets + 1] = target
  end
  local host, port = string.match(targets[index % #targets + 1], "^(.*):(%d+)$")
  thread.addr = wrk.lookup(host, port)[1]
  thread:set("index", index)
  threads[#threads + 1] = thread
end

local function base64(text)
  local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  local out = {}
  for at = 1, #text, 3 do
    local a, b, c = string.byte(text, at, at + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    for place = 0, 3 do
      local digit = math.floor(bits / 64 ^ (3 - place)) % 64
      local given = place < 2 or (place == 2 and b) or (place == 3 and c)
      out[#out + 1] = given and string.sub(alphabet, digit + 1, digit + 1) or "="
    end
  end
  return table.concat(out)
end

-- A value that no other request of any run has: its number, filled up.
local function value(number)
  local head = string.format("%s-%d-%d-", os.getenv("BENCH_SALT"), index, number)
  return head .. string.rep("v", VALUE_BYTES - #head)
end

local workloads = {
  ["thuban-write"] = function(key, number)
    local body = string.format('[{"namespace":"bench","name":"%s","comment":"%s"}]', key, value(number))
    return wrk.format("PUT", "/naming/v1/services", nil, body)
  end,
  ["thuban-read"] = function(key)
    return wrk.format("GET", "/naming/v1/services?namespace=bench&name=" .. key)
  end,
  ["thuban-publish"] = function(key, number)
    local file = '{"namespace":"bench","group":"bench","file_name":"%s.txt","content":"%s"}'
    return wrk.format("POST", "/config/v1/configfiles/createandpub", nil, string.format(file, key, value(number)))
  end,
  ["thuban-pull"] = function()
    return wrk.format("GET", "/configs/bench/bench/pulled.txt")
  end,
  ["thuban-livez"] = function()
    return wrk.format("GET", "/livez")
  end,
  ["thuban-poll"] = function(_, number)
    -- Of who holds nothing yet, so it is answered at once; and of another client each time, as no client is twice.
    local held = "%5B%7B%22namespaceName%22%3A%22pulled.txt%22%2C%22notificationId%22%3A-1%7D%5D"
    local query = string.format("appId=bench&cluster=bench&ip=%d-%d&notifications=%s", index, number, held)
    return wrk.format("GET", "/notifications/v2?" .. query)
  end,
  ["thuban-discover"] = function(key)
    local service = '{"type":"INSTANCE","service":{"namespace":"bench","name":"%s"}}'
    return wrk.format("POST", "/v1/Discover", nil, string.format(service, key))
  end,
  ["thuban-heartbeat"] = function(key)
    local instance = '{"namespace":"bench","service":"%s","host":"host","port":80}'
    return wrk.format("POST", "/v1/Heartbeat", nil, string.format(instance, key))
  end,
  ["rnacos-publish"] = function(key, number)
    local body = string.format("group=bench&dataId=%s&content=%s", key, value(number))
    return wrk.format("POST", "/nacos/v1/cs/configs", {["Content-Type"] = "application/x-www-form-urlencoded"}, body)
  end,
  ["rnacos-pull"] = function()
    return wrk.format("GET", "/nacos/v1/cs/configs?group=bench&dataId=pulled")
  end,
  ["etcd-write"] = function(key, number)
    local body = string.format('{"key":"%s","value":"%s"}', base64(key), base64(value(number)))
    return wrk.format("POST", "/v3/kv/put", nil, body)
  end,
  ["etcd-read"] = function(key)
    return wrk.format("POST", "/v3/kv/range", nil, string.format('{"key":"%s"}', base64(key)))
  end,
}

local number = 0
local build = workloads[os.getenv("BENCH_WORKLOAD")]

function init()
  wrk.headers["Content-Type"] = "application/json"
  local token = os.getenv("BENCH_TOKEN")
  if token ~= "" then
    wrk.headers["Authorization"] = token
  end
end

function request()
  number = number + 1
  -- Threads start apart, so that they do not write the same key at the same moment.
  local key = string.format("service-%d", (number + index * 337) % KEYS)
  return build(key, number)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"refused":%d,"broken":%d,"bytes":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    summary.bytes))
end
