package azure

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// Cloud is one of Azure's clouds: where to log in and what its systems are
// called.
type Cloud struct {
	Name      string   // as the Azure CLI calls it
	Authority string   // of logins
	Hosts     []string // that are this authority by another name too
	Exchange  string   // audience of a job's token
	Vaults    string   // the domain of its key vaults
}

// clouds are the clouds that Microsoft runs for everybody, for the United
// States' government, and that 21Vianet runs in China.
// https://learn.microsoft.com/entra/identity-platform/authentication-national-cloud
// https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates
func clouds() []Cloud {
	return []Cloud{
		{"AzureCloud", "https://login.microsoftonline.com/", []string{"login.windows.net", "login.microsoft.com"}, "api://AzureADTokenExchange", "vault.azure.net"},
		{"AzureUSGovernment", "https://login.microsoftonline.us/", nil, "api://AzureADTokenExchangeUSGov", "vault.usgovcloudapi.net"},
		{"AzureChinaCloud", "https://login.chinacloudapi.cn/", []string{"login.partner.microsoftonline.cn"}, "api://AzureADTokenExchangeChina", "vault.azure.cn"},
	}
}

// CloudOf returns the cloud that AZURE_CLOUD names (AzureCloud,
// AzureUSGovernment, AzureChinaCloud), or whose logins AZURE_AUTHORITY_HOST
// does; by default the public one.
func CloudOf(env providers.Env, provider string) (Cloud, error) {
	l := login{env: env, provider: provider}
	named, authority := l.getenv("AZURE_CLOUD"), l.getenv("AZURE_AUTHORITY_HOST")
	for _, c := range clouds() {
		if (named == "" || named == c.Name) && (authority == "" || c.logsInAt(authority)) {
			return c, nil
		}
	}
	return Cloud{}, l.fault(providers.Invalid,
		fmt.Errorf("AZURE_CLOUD %.100q with AZURE_AUTHORITY_HOST %.100q, expected AzureCloud, AzureUSGovernment or AzureChinaCloud and no authority or its own", named, authority),
		"one of the two is enough; other clouds are not supported")
}

func (c Cloud) logsInAt(authority string) bool {
	u, err := url.Parse(authority)
	return err == nil && u.Scheme == "https" && strings.Trim(u.Path, "/") == "" &&
		(u.Host == strings.Trim(strings.TrimPrefix(c.Authority, "https://"), "/") || slices.Contains(c.Hosts, u.Host))
}
