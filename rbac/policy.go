package rbac

import (
	"fmt"
	"strings"

	"kubecdc/audit"
)

// policyVersion is the API group of the policy, from Kubernetes 1.30 on.
const policyVersion = "admissionregistration.k8s.io/v1"

// AuditPolicy returns a ValidatingAdmissionPolicy with its binding. It refuses nothing. It writes into the audit event of each
// write which object that was, and in which version the request found it. The chart's templates/auditpolicy.yaml makes the same
// objects.
func (a *Account) AuditPolicy() []Object {
	name := strings.ReplaceAll(a.roleName(""), ":", ".")
	const present = "oldObject != null"
	var annotations []Object
	for _, m := range audit.Moduli {
		for n := range m {
			annotations = append(annotations, Object{"key": fmt.Sprintf("%s-%d-%d", audit.Annotation, m, n),
				"valueExpression": fmt.Sprintf(`%s && variables.version %% %d == %d ? variables.told : ""`, present, m, n)})
		}
	}
	annotations = append(annotations, Object{"key": audit.Annotation,
		"valueExpression": fmt.Sprintf(`%s ? "" : object.metadata.uid + (variables.dry ? " dry" : " new " + object.metadata.name)`, present)})
	return []Object{
		object(policyVersion, "ValidatingAdmissionPolicy", name, "", Object{"spec": Object{
			"failurePolicy": "Ignore",
			"matchConstraints": Object{
				"resourceRules": []Object{{"apiGroups": []string{"*"}, "apiVersions": []string{"*"}, "resources": []string{"*/*"},
					"operations": []string{"CREATE", "UPDATE", "DELETE"}}},
				"excludeResourceRules": []Object{{"apiGroups": []string{"coordination.k8s.io"}, "apiVersions": []string{"*"},
					"resources": []string{"leases"}, "operations": []string{"*"}}}},
			"variables": []Object{
				{"name": "dry", "expression": "has(request.dryRun) && request.dryRun"},
				// A request that changes nothing finds the same version as the next request. A scale may be equal where
				// managedFields are not, and a second deletion may shorten the grace period. So nothing is claimed of such
				// requests.
				{"name": "writes", "expression": `request.operation == "DELETE" ? !has(oldObject.metadata.deletionTimestamp) : object != oldObject`},
				// A deletion without a grace period is two writes: the first one sets the period to 0, and the second one finds
				// that.
				{"name": "ends", "expression": `request.operation == "DELETE" && has(oldObject.metadata.deletionGracePeriodSeconds) && ` +
					`oldObject.metadata.deletionGracePeriodSeconds == 0 && !has(oldObject.metadata.finalizers)`},
				{"name": "how", "expression": `variables.dry ? " dry " : variables.writes ? " old " : variables.ends ? " end " : " maybe "`},
				{"name": "version", "expression": "int(oldObject.metadata.resourceVersion)"},
				{"name": "told", "expression": "oldObject.metadata.uid + variables.how + oldObject.metadata.resourceVersion"}},
			"auditAnnotations": annotations}}),
		object(policyVersion, "ValidatingAdmissionPolicyBinding", name, "", Object{"spec": Object{
			"policyName": name, "validationActions": []string{"Audit"}}}),
	}
}
