"""Validates the manifests of a page against the published schemas: `manifests.py PAGE`.

Kubernetes: every version from 1.29, the first with the newest used field on by default; unknown fields are errors. AWS Batch: the model of
the API. Also checks documented rules that the schemas lack. Then misspells each field of each manifest, one at a time, and requires that
the schema refuses it. Prints JSON with arguments, variables and number of parts of each container.
"""

import copy
import json
import re
import sys

import botocore.loaders
import botocore.model
import botocore.validate
import yaml
from kubernetes_validate import utils as kubernetes_validate

OLDEST = "1.29"
# Maps with free keys: quantities by resource name.
FREE = {"requests", "limits"}
# Exit codes of shardpack that a retry repeats.
FINAL = [1, 2]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def need(holds, what):
    if not holds:
        raise ValueError(what)


def number(version):
    return [int(part) for part in version.split(".")[:2]]


def versions():
    """The checked versions, ascending, such as 1.29."""
    found = {kubernetes_validate.major_minor(version) for version in kubernetes_validate.all_versions()}
    return sorted((version for version in found if number(version) >= number(OLDEST)), key=number)


def kubernetes_schema(job, of):
    for version in of:
        kubernetes_validate.validate(job, version, strict=True)


def kubernetes_rules(job):
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    need(job["kind"] == "Job" and pod["restartPolicy"] in ("Never", "OnFailure"), "a Job that restarts for ever")
    names = [container["name"] for container in pod["containers"]]
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
    need(mounts <= volumes, f"mounts {mounts} of volumes {volumes}")
    indexed = spec.get("completionMode") == "Indexed"
    need(spec.get("completionMode") in (None, "Indexed", "NonIndexed"), "completionMode")
    need("backoffLimitPerIndex" not in spec or indexed, "backoffLimitPerIndex is of indexed Jobs")
    need(spec.get("completions", 1) <= 100_000, "more indexes than backoffLimitPerIndex allows")
    if rules := spec.get("podFailurePolicy", {}).get("rules"):
        need(pod["restartPolicy"] == "Never", "podFailurePolicy needs restartPolicy Never")
        need(len(rules) <= 20, "too many rules")
    for rule in rules or []:
        need(rule["action"] in ("Count", "FailIndex", "FailJob", "Ignore"), rule["action"])
        need(rule["action"] != "FailIndex" or "backoffLimitPerIndex" in spec, "FailIndex needs backoffLimitPerIndex")
        need(("onExitCodes" in rule) != ("onPodConditions" in rule), "one requirement a rule")
        if codes := rule.get("onExitCodes"):
            need(codes["operator"] in ("In", "NotIn") and codes.get("containerName", names[0]) in names, codes)
            need(codes["values"] == sorted(set(codes["values"])) and 0 not in codes["values"], codes)
        for condition in rule.get("onPodConditions", []):
            need(condition["type"] == "DisruptionTarget" and condition["status"] == "True", condition)
    if indexed:
        first, *others = rules
        need(first["action"] == "FailIndex" and first["onExitCodes"]["values"] == FINAL, "codes that are final")
        need([rule["action"] for rule in others] == ["Ignore"], "a lost node")


BATCH = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("batch", "service-2"))


def enums(value, shape, at=""):
    """Raises if a text is not in the enum of the model. botocore's validator does not check enums."""
    if shape.type_name == "structure":
        for key, one in value.items():
            enums(one, shape.members[key], f"{at}.{key}")
    elif shape.type_name == "list":
        for one in value:
            enums(one, shape.member, at)
    elif shape.type_name == "string" and shape.enum:
        need(value in shape.enum, f"{at}: {value}, not of {shape.enum}")


def batch_schema(document):
    operation = "RegisterJobDefinition" if "jobDefinitionName" in document else "SubmitJob"
    shape = BATCH.operation_model(operation).input_shape
    report = botocore.validate.ParamValidator().validate(document, shape)
    need(not report.has_errors(), report.generate_report())
    enums(document, shape)


def batch_rules(document):
    size = document.get("arrayProperties", {}).get("size", 2)
    need(2 <= size <= 10_000, "size of an array")
    if container := document.get("containerProperties"):
        volumes = {volume["name"] for volume in container["volumes"]}
        need({mount["sourceVolume"] for mount in container["mountPoints"]} == volumes, "mounts")
        need({one["type"] for one in container["resourceRequirements"]} >= {"VCPU", "MEMORY"}, "cores and memory")
    if retry := document.get("retryStrategy"):
        need(1 <= retry["attempts"] <= 10 and len(retry["evaluateOnExit"]) <= 5, "attempts")
        ends = [int(rule["onExitCode"]) for rule in retry["evaluateOnExit"] if rule["action"] == "EXIT"]
        need(ends == FINAL, f"codes that are final: {ends}")


def fields(document, path=()):
    """The path of each field that a schema knows."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(document, dict) and not (path and path[-1] in FREE):
            yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from fields(value, (*path, key))


def misspelt(document, path):
    document = copy.deepcopy(document)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    # At the same place: swaps the last two letters, or doubles the last letter.
    *_, key = path
    other = key[:-2] + key[-1] + key[-2] if key[-1] != key[-2] else key + key[-1]
    parent[other] = parent.pop(key)
    return document


def refuses(schema, document):
    """Returns true if the schema alone refuses the document, or if the kind is unknown."""
    try:
        schema(document)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError, KeyError, ValueError):
        return True
    return False


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    found = {"jobs": [], "misspelt": 0, "versions": versions()}
    of = versions()
    kinds = [
        ("yaml", yaml.safe_load, lambda one: kubernetes_schema(one, of), kubernetes_rules, lambda one: kubernetes_schema(one, of[-1:])),
        ("json", json.loads, batch_schema, batch_rules, batch_schema),
    ]
    for language, read, schema, rules, newest in kinds:
        for text in blocks(page, language):
            document = read(text)
            schema(document)
            rules(document)
            for path in fields(document):
                if not refuses(newest, misspelt(document, path)):
                    sys.exit(f"{'.'.join(map(str, path))} may be misspelt in\n{text}")
                found["misspelt"] += 1
            if language == "yaml":
                container = document["spec"]["template"]["spec"]["containers"][0]
                found["jobs"].append({
                    "name": document["metadata"]["name"],
                    "args": container["args"],
                    "env": {one["name"]: one["value"] for one in container.get("env", [])},
                    "index": "JOB_COMPLETION_INDEX",
                    "parts": document["spec"].get("completions"),
                })
            elif "jobDefinitionName" in document:
                usual = document["containerProperties"]["command"]
            else:
                parts = document.get("arrayProperties", {}).get("size")
                found["jobs"].append({
                    "name": document["jobName"],
                    "args": document.get("containerOverrides", {}).get("command", usual),
                    # Variables that Batch sets in addition to the index.
                    "env": {"AWS_BATCH_JOB_ARRAY_SIZE": str(parts)} if parts else {},
                    "index": "AWS_BATCH_JOB_ARRAY_INDEX",
                    "parts": parts,
                })
    print(json.dumps(found))


if __name__ == "__main__":
    main()
